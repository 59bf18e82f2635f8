// The kernel's control files (configfs, sysfs, debugfs) as a tree of folders, links and attributes.
//
// Purpose: everything that builds devices out of such files is written against this interface, so that it can be
// tried against a tree that refuses any step one likes.
//
// Thread safety: KernelTree is stateless; any thread may use it. An attribute is written by one system call, as the
// kernel wants it.
//
// Errors: kSystem with the errno, the path and what the kernel answered; kUnsupported where only root may.
#pragma once

#include <string>
#include <vector>

namespace mqlab::devices {

class ControlTree {
 public:
  ControlTree() = default;
  virtual ~ControlTree() = default;
  ControlTree(const ControlTree&) = delete;
  ControlTree& operator=(const ControlTree&) = delete;

  virtual bool exists(const std::string& path) const = 0;

  // Names in a folder, sorted; none where there is no such folder.
  virtual std::vector<std::string> list(const std::string& path) const = 0;

  // The text without the line break at its end.
  virtual std::string read(const std::string& path) const = 0;
  virtual void write(const std::string& path, const std::string& text) = 0;

  virtual void make_folder(const std::string& path) = 0;
  // A folder that is gone already is success; one that is busy is tried again for a moment.
  virtual void remove_folder(const std::string& path) = 0;

  virtual void make_link(const std::string& path, const std::string& target) = 0;
  virtual void remove_link(const std::string& path) = 0;
};

class KernelTree final : public ControlTree {
 public:
  bool exists(const std::string& path) const override;
  std::vector<std::string> list(const std::string& path) const override;
  std::string read(const std::string& path) const override;
  void write(const std::string& path, const std::string& text) override;
  void make_folder(const std::string& path) override;
  void remove_folder(const std::string& path) override;
  void make_link(const std::string& path, const std::string& target) override;
  void remove_link(const std::string& path) override;
};

inline constexpr const char* kConfigfs = "/sys/kernel/config";

}  // namespace mqlab::devices
