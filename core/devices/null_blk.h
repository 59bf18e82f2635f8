// null_blk devices, made and removed through configfs.
//
// Thread safety: create() and destroy() of different names may run at once, from any thread.
//
// Invariants: a device is there with all its attributes, or it is not there at all: a step that fails takes back the
// steps before it.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "devices/control_tree.h"

namespace mqlab::devices {

struct NullBlkOptions {
  unsigned queues = 1;
  unsigned depth = 64;
  std::uint64_t size_mib = 1024;
  unsigned block_bytes = 512;
  bool memory_backed = false;
};

class NullBlkDriver {
 public:
  // Throws kUnsupported where configfs or the driver is missing. The tree must outlive the driver.
  explicit NullBlkDriver(ControlTree& tree);

  // What the driver says that it has; older kernels list only what came after its first version.
  const std::set<std::string>& features() const { return features_; }

  // Throws kUsage where the kernel would refuse the options, or quietly take other ones.
  static void check(const NullBlkOptions& options, unsigned cpus);

  void create(const std::string& name, const NullBlkOptions& options);

  // Switches the device off, then removes it. One that is gone already is success.
  void destroy(const std::string& name);
  void power_off(const std::string& name);
  void remove(const std::string& name);

  // Never the same twice in a process, and not that of another process.
  static std::string fresh_name();
  static std::string node(const std::string& name) { return "/dev/" + name; }

 private:
  void set(const std::string& name, const char* attribute, const std::string& value);

  ControlTree* tree_;
  std::set<std::string> features_;
};

}  // namespace mqlab::devices
