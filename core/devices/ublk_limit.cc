#include "devices/ublk_limit.h"

#include <charconv>
#include <cstdint>
#include <string_view>

#include "devices/undo.h"

namespace mqlab::devices {
namespace {

constexpr const char* kLimit = "/sys/module/ublk_drv/parameters/ublks_max";
constexpr const char* kDevices = "/sys/class/ublk-char";

std::uint64_t number_of(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

UblkDeviceLimit::UblkDeviceLimit(ControlTree& tree, std::size_t devices) : tree_(&tree) {
  if (!tree.exists(kLimit)) return;
  const std::string found = tree.read(kLimit);
  const std::uint64_t needed = tree.list(kDevices).size() + devices;
  if (number_of(found) >= needed) return;
  // Read-only on some kernels, and no limit for root on others.
  if (succeeds([&] { tree.write(kLimit, std::to_string(needed)); })) found_ = found;
}

UblkDeviceLimit::~UblkDeviceLimit() {
  // The driver may have been unloaded, and the limit with it.
  if (!found_.empty()) succeeds([&] { tree_->write(kLimit, found_); });
}

}  // namespace mqlab::devices
