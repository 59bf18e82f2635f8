#include "devices/scsi_disk.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/text_file.h"

namespace mqlab::devices {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const fs::path& folder) {
  std::error_code none;
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

// A SCSI device is called HOST:CHANNEL:TARGET:LUN.
std::string host_of(const fs::path& device) {
  const std::vector<std::string> names = names_in(device / "scsi_device");
  return names.empty() ? std::string() : "host" + names.front().substr(0, names.front().find(':'));
}

// Of a PCI device; that of a virtio host lies one folder further up.
std::set<unsigned> irqs_of(const fs::path& host) {
  std::set<unsigned> irqs;
  for (const char* const up : {"device/../msi_irqs", "device/../../msi_irqs"}) {
    for (const std::string& name : names_in(host / up)) {
      unsigned irq = 0;
      const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), irq);
      if (error == std::errc()) irqs.insert(irq);
    }
  }
  return irqs;
}

}  // namespace

ScsiDisk find_scsi_disk(const std::string& driver, const std::string& sysfs) {
  std::set<std::string> seen;
  for (const std::string& name : names_in(fs::path(sysfs) / "block")) {
    const fs::path block = fs::path(sysfs) / "block" / name;
    const std::string host_name = host_of(block / "device");
    if (host_name.empty()) continue;
    const fs::path host = fs::path(sysfs) / "class/scsi_host" / host_name;
    const std::string found = first_line_of(host / "proc_name");
    if (found == driver) return {name, block / "queue", block / "device", irqs_of(host)};
    seen.insert(found);
  }
  std::string others;
  for (const std::string& other : seen) others += (others.empty() ? "" : ", ") + other;
  throw Error(ErrorKind::kUnsupported,
              "there is no SCSI disk of the driver " + driver + (others.empty() ? "" : " (but of " + others + ")"),
              driver == "virtio_scsi" ? "give the guest the device virtio-scsi, and use a kernel with its driver"
                                      : "load the driver, and see that its disk is there (/sys/block)");
}

}  // namespace mqlab::devices
