// A SCSI disk, found by the driver of its host and not by a guessed name.
//
// Thread safety: functions without state.
#pragma once

#include <set>
#include <string>

namespace mqlab::devices {

struct ScsiDisk {
  std::string name;         // sda
  std::string queue_path;   // of the block queue's settings
  std::string device_path;  // of the SCSI device's settings
  std::set<unsigned> irqs;  // the interrupts of its host's PCI device; none where it has no such device
};

// The first disk whose host's driver calls itself `driver` ("virtio_scsi", "scsi_debug", "megaraid_sas"). `sysfs` is
// where sysfs is mounted. Throws kUnsupported where there is none, with the drivers that there are.
ScsiDisk find_scsi_disk(const std::string& driver, const std::string& sysfs = "/sys");

}  // namespace mqlab::devices
