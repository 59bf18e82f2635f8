#include "devices/kernel_setting.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <utility>

#include "base/descriptor.h"
#include "base/error.h"

namespace mqlab::devices {
namespace {

// 0, or the errno. One write, as the kernel wants it.
int try_write(const std::string& path, const std::string& value) {
  const Descriptor file(open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (!file.is_open()) return errno;
  return write(file.get(), value.data(), value.size()) < 0 ? errno : 0;
}

}  // namespace

std::string read_setting(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) {
    throw Error(ErrorKind::kUnsupported, "the kernel has no setting " + path,
                "use a kernel that has it, or run as root");
  }
  const std::size_t open_at = line.find('[');
  const std::size_t close_at = line.find(']', open_at);
  if (open_at == std::string::npos || close_at == std::string::npos) return line;
  return line.substr(open_at + 1, close_at - open_at - 1);
}

KernelSetting::KernelSetting(std::string path, const std::string& value)
    : path_(std::move(path)), found_(read_setting(path_)) {
  const int err = try_write(path_, value);
  if (err == 0) return;
  Error error = system_error("setting " + path_ + " to " + value + " (it is " + found_ + ")", err,
                             err == EACCES || err == EPERM ? "run as root, or use the target vm"
                                                           : "use a value that this kernel and device know");
  error.kind = ErrorKind::kUnsupported;
  throw error;
}

KernelSetting::~KernelSetting() { static_cast<void>(try_write(path_, found_)); }

}  // namespace mqlab::devices
