// How many devices ublk lets one have: the module parameter ublks_max, 64 by default. On 6.3 to 6.14 it counts all
// devices, later those of unprivileged users only.
//
// Thread safety: one object at a time, since each gives back the value that it found.
#pragma once

#include <cstddef>
#include <string>

#include "devices/control_tree.h"

namespace mqlab::devices {

class UblkDeviceLimit {
 public:
  // Raises the limit to `devices` more than there are. Where it cannot be raised, or there is none, it stays as it is:
  // ADD_DEV then tells. The tree must outlive the object.
  UblkDeviceLimit(ControlTree& tree, std::size_t devices);
  ~UblkDeviceLimit();
  UblkDeviceLimit(const UblkDeviceLimit&) = delete;
  UblkDeviceLimit& operator=(const UblkDeviceLimit&) = delete;

 private:
  ControlTree* tree_;
  std::string found_;  // empty: nothing to give back
};

}  // namespace mqlab::devices
