// A control file of the kernel (sysfs, proc) that is set to a value and given back what it had.
//
// Thread safety: none; two objects for the same file would give back each other's value.
#pragma once

#include <string>

namespace mqlab::devices {

// The value of a file without the line break; of a list of choices, "none [mq-deadline] kyber", the one in brackets.
// Throws kUnsupported where there is no such file.
std::string read_setting(const std::string& path);

class KernelSetting {
 public:
  // Throws kUnsupported where the kernel has no such file or refuses the value.
  KernelSetting(std::string path, const std::string& value);
  ~KernelSetting();
  KernelSetting(const KernelSetting&) = delete;
  KernelSetting& operator=(const KernelSetting&) = delete;

  // What the kernel made of the value.
  std::string value() const { return read_setting(path_); }

 private:
  std::string path_;
  std::string found_;
};

}  // namespace mqlab::devices
