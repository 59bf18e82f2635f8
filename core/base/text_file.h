// Files of proc and sysfs, read whole. A file that cannot be read is empty: ask elsewhere why.
//
// Thread safety: any.
#pragma once

#include <filesystem>
#include <string>

namespace mqlab {

std::string text_of(const std::filesystem::path& path);
std::string first_line_of(const std::filesystem::path& path);

}  // namespace mqlab
