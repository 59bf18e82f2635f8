#include "devices/control_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>

#include "base/descriptor.h"
#include "base/error.h"

namespace mqlab::devices {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBusyLimit{2000};
constexpr milliseconds kBusyPause{10};

[[noreturn]] void fail(const std::string& what, int err) {
  const std::string message = what + " was answered with: " + std::generic_category().message(err);
  switch (err) {
    case EACCES:
    case EPERM:
      throw Error(ErrorKind::kUnsupported, message, "run as root, or use the target vm", err);
    case EROFS:
      throw Error(ErrorKind::kUnsupported, message, "mount it writable, or use the target vm", err);
    case ENOENT:
    case ENODEV:
    case ENXIO:
      throw Error(ErrorKind::kSystem, message, "the device or its driver is gone, or this kernel has no such attribute",
                  err);
    case EBUSY:
      throw Error(ErrorKind::kSystem, message, "something uses it (an open file, a mount, a link): end that first",
                  err);
    case EEXIST:
      throw Error(ErrorKind::kSystem, message, "remove the one that is there, or choose another name", err);
    case EINVAL:
      throw Error(ErrorKind::kSystem, message, "this kernel does not take the value: dmesg may say why", err);
    default:
      throw Error(ErrorKind::kSystem, message, "dmesg may have the driver's own words", err);
  }
}

Descriptor open_attribute(const std::string& path, int flags) {
  Descriptor file(open(path.c_str(), flags | O_CLOEXEC));
  if (!file.is_open()) fail("opening " + path, errno);
  return file;
}

}  // namespace

bool KernelTree::exists(const std::string& path) const { return access(path.c_str(), F_OK) == 0; }

std::vector<std::string> KernelTree::list(const std::string& path) const {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator at(path, error);
  // Stepping may fail too, since the folder can vanish meanwhile: what was seen by then is the answer.
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string KernelTree::read(const std::string& path) const {
  const Descriptor file = open_attribute(path, O_RDONLY);
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("reading " + path, errno);
    if (got == 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

void KernelTree::write(const std::string& path, const std::string& text) {
  const Descriptor file = open_attribute(path, O_WRONLY);
  while (::write(file.get(), text.data(), text.size()) < 0) {
    if (errno != EINTR) fail("writing '" + text + "' to " + path, errno);
  }
}

void KernelTree::make_folder(const std::string& path) {
  if (mkdir(path.c_str(), 0755) != 0) fail("making " + path, errno);
}

void KernelTree::remove_folder(const std::string& path) {
  const auto deadline = std::chrono::steady_clock::now() + kBusyLimit;
  while (rmdir(path.c_str()) != 0) {
    const int err = errno;
    if (err == ENOENT) return;
    if (err != EBUSY || std::chrono::steady_clock::now() >= deadline) fail("removing " + path, err);
    std::this_thread::sleep_for(kBusyPause);
  }
}

void KernelTree::make_link(const std::string& path, const std::string& target) {
  if (symlink(target.c_str(), path.c_str()) != 0) fail("linking " + path + " to " + target, errno);
}

void KernelTree::remove_link(const std::string& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) fail("removing the link " + path, errno);
}

}  // namespace mqlab::devices
