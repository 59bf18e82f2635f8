// A file or block device, opened for direct reads: past the page cache, as a benchmark wants them.
//
// Thread safety: immutable after construction; threads may share it.
#pragma once

#include <cstdint>
#include <string>

#include "base/descriptor.h"

namespace mqlab::io {

class BlockFile {
 public:
  // Throws kUnsupported where direct reads or the right to read are missing, kUsage where there is no such file,
  // kSystem on anything else.
  explicit BlockFile(const std::string& path);

  int descriptor() const noexcept { return file_.get(); }
  const std::string& path() const noexcept { return path_; }
  std::uint64_t size_bytes() const noexcept { return size_bytes_; }

  // How many whole blocks it has. Throws kUsage when it cannot be read in blocks of this size, or has none.
  std::uint64_t blocks_of(std::uint32_t block_bytes) const;

 private:
  std::string path_;
  Descriptor file_;
  std::uint64_t size_bytes_ = 0;
  std::uint32_t alignment_bytes_ = 512;  // of a direct read
};

}  // namespace mqlab::io
