// A file with known content, on a file system that has direct reads.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace mqlab::io {

inline constexpr std::size_t kWordBytes = sizeof(std::uint64_t);

// Every word of the file is its own place times an odd number.
inline std::uint64_t word_at(std::uint64_t offset_bytes) { return (offset_bytes + 1) * 0x9e3779b97f4a7c15U; }

inline bool has_known_content(std::uint64_t offset_bytes, std::span<const std::byte> content) {
  for (std::size_t at = 0; at < content.size(); at += kWordBytes) {
    std::uint64_t word = 0;
    std::memcpy(&word, content.data() + at, kWordBytes);
    if (word != word_at(offset_bytes + at)) return false;
  }
  return true;
}

class ScratchFile {
 public:
  explicit ScratchFile(std::size_t size_bytes) {
    const char* const folder = std::getenv("TMPDIR");
    path_ = std::string(folder == nullptr ? "/var/tmp" : folder) + "/mqlab-test-XXXXXX";
    const int fd = mkstemp(path_.data());
    if (fd < 0) throw std::runtime_error("no scratch file in " + path_);
    std::vector<std::uint64_t> words(size_bytes / kWordBytes);
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = word_at(i * kWordBytes);
    const ssize_t written = ::write(fd, words.data(), size_bytes);
    ::close(fd);
    if (written != static_cast<ssize_t>(size_bytes)) throw std::runtime_error("no room for a scratch file");
  }
  ~ScratchFile() { ::unlink(path_.c_str()); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace mqlab::io
