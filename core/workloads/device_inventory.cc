// Workload `device_inventory`: counts the devices that the others make, whoever made them. Run after another it tells
// whether that one left anything behind.
#include <string>

#include "devices/control_tree.h"
#include "workloads/builtin.h"

namespace mqlab::workloads {
namespace {

struct Place {
  const char* counter;
  std::string folder;
  const char* prefix;  // of the names that are devices
};

Json run(const Json&) {
  const std::string configfs = devices::kConfigfs;
  const Place places[] = {{"null_blk", configfs + "/nullb", ""},
                          {"null_blk_disks", "/sys/block", "mqlab-null-"},
                          {"nvmet_subsystems", configfs + "/nvmet/subsystems", ""},
                          {"nvmet_ports", configfs + "/nvmet/ports", ""},
                          {"nvme_controllers", "/sys/class/nvme", ""},
                          {"ublk", "/sys/class/ublk-char", ""}};
  const devices::KernelTree tree;
  Json counters = Json::object();
  Json notes = Json::array();
  std::uint64_t total = 0;
  for (const Place& place : places) {
    std::uint64_t found = 0;
    for (const std::string& name : tree.list(place.folder)) {
      if (name == "features" || !name.starts_with(place.prefix)) continue;
      ++found;
      notes.push_back(place.folder + '/' + name);
    }
    counters[place.counter] = found;
    total += found;
  }
  return {{"samples", {{"devices_count", Json::array({total})}}}, {"counters", counters}, {"notes", notes}};
}

}  // namespace

Workload device_inventory_workload() {
  return {.name = "device_inventory",
          .help = "Counts ublk, null_blk and NVMe devices and NVMe targets that there are.",
          .targets = {"device"},
          .run = run};
}

}  // namespace mqlab::workloads
