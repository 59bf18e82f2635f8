#include "io/block_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/error.h"

namespace mqlab::io {
namespace {

[[noreturn]] void throw_open_error(const std::string& path, int err) {
  const std::string what = "opening " + path + " for direct reads";
  Error error = system_error(what, err, "see errno in open(2)");
  switch (err) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
      error.kind = ErrorKind::kUsage;
      error.remedy = "name a block device or a file that exists";
      break;
    case EACCES:
    case EPERM:
      error.kind = ErrorKind::kUnsupported;
      error.remedy = "run as root, or use a device that you may read";
      break;
    case ENXIO:
    case ENODEV:
      error.kind = ErrorKind::kUnsupported;
      error.remedy = "the driver of the device is not there: load it";
      break;
    case EINVAL:
      error.kind = ErrorKind::kUnsupported;
      error.remedy = "its file system has no direct reads (O_DIRECT): take a file elsewhere, or a block device";
      break;
    default:
      break;
  }
  throw error;
}

}  // namespace

BlockFile::BlockFile(const std::string& path) : path_(path) {
  struct stat about{};
  if (stat(path.c_str(), &about) != 0) throw_open_error(path, errno);
  if (!S_ISREG(about.st_mode) && !S_ISBLK(about.st_mode)) {
    throw Error(ErrorKind::kUsage, path + " is neither a file nor a block device", "name one that is");
  }
  file_ = Descriptor(open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  if (!file_.is_open()) throw_open_error(path, errno);
  if (S_ISREG(about.st_mode)) {
    size_bytes_ = static_cast<std::uint64_t>(about.st_size);
    return;
  }
  int logical_bytes = 0;
  if (ioctl(descriptor(), BLKSSZGET, &logical_bytes) == 0) alignment_bytes_ = static_cast<std::uint32_t>(logical_bytes);
  ioctl(descriptor(), BLKGETSIZE64, &size_bytes_);  // stays 0, and so no block, where it is refused
}

std::uint64_t BlockFile::blocks_of(std::uint32_t block_bytes) const {
  if (block_bytes == 0 || block_bytes % alignment_bytes_ != 0) {
    throw Error(ErrorKind::kUsage, path_ + " cannot be read in blocks of " + std::to_string(block_bytes) + " bytes",
                "take a multiple of its block size, " + std::to_string(alignment_bytes_) + " bytes");
  }
  const std::uint64_t blocks = size_bytes_ / block_bytes;
  if (blocks == 0) {
    throw Error(
        ErrorKind::kUsage,
        path_ + " holds " + std::to_string(size_bytes_) + " bytes, no whole block of " + std::to_string(block_bytes),
        "take a larger file or device, or smaller blocks");
  }
  return blocks;
}

}  // namespace mqlab::io
