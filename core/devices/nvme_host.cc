#include "devices/nvme_host.h"

#include <cerrno>
#include <string_view>

#include "base/error.h"
#include "devices/undo.h"

namespace mqlab::devices {
namespace {

constexpr const char* kFabrics = "/dev/nvme-fabrics";
constexpr const char* kClass = "/sys/class/nvme";
constexpr const char* kBlock = "/sys/block";
// A fixed host, since the kernel would make a random one up, and name and id must belong together.
constexpr const char* kHostId = "6d716c61-6200-4000-8000-000000000001";

std::string_view digits_at(std::string_view text, std::size_t at) {
  const std::size_t end = text.find_first_not_of("0123456789", at);
  return text.substr(at, end == std::string_view::npos ? text.size() - at : end - at);
}

// The block device of a namespace as it stands under a controller: nvme0n1 is it itself, nvme0c1n1 is a path whose
// device is nvme0n1. Nothing for other entries of the folder.
std::optional<std::string> block_device_of(std::string_view entry) {
  constexpr std::string_view kHead = "nvme";
  if (!entry.starts_with(kHead)) return std::nullopt;
  std::size_t at = kHead.size() + digits_at(entry, kHead.size()).size();
  const std::string_view subsystem = entry.substr(0, at);
  if (at < entry.size() && entry[at] == 'c') at += 1 + digits_at(entry, at + 1).size();
  const std::string_view name = entry.substr(at);
  if (name.size() < 2 || name[0] != 'n' || digits_at(name, 1).size() != name.size() - 1) return std::nullopt;
  return std::string(subsystem) + std::string(name);
}

std::string remedy_of(const FabricsConnection& connection, int err) {
  switch (err) {
    case ECONNREFUSED:
    case ENETUNREACH:
    case EHOSTUNREACH:
      return "the target does not answer there: is its port open, and is the interface lo up?";
    case EINVAL:
      return "load the module nvme-" + connection.transport + ": the host may have no such transport; see dmesg";
    default:
      return "dmesg has the nvme driver's own words";
  }
}

}  // namespace

std::string connect_options(const FabricsConnection& connection) {
  std::string options = "transport=" + connection.transport;
  if (connection.transport == "tcp") options += ",traddr=127.0.0.1,trsvcid=" + std::to_string(connection.service);
  return options + ",nqn=" + connection.nqn + ",nr_io_queues=" + std::to_string(connection.queues) +
         ",hostnqn=nqn.2014-08.org.nvmexpress:uuid:" + kHostId + ",hostid=" + kHostId;
}

NvmeHost::NvmeHost(ControlTree& tree) : tree_(&tree) {
  if (!tree.exists(kFabrics)) {
    throw Error(ErrorKind::kUnsupported, std::string("there is no ") + kFabrics,
                "load the modules nvme-fabrics and nvme-tcp or nvme-loop (CONFIG_NVME_TCP, CONFIG_NVME_TARGET_LOOP)");
  }
}

void NvmeHost::connect(const FabricsConnection& connection) {
  try {
    tree_->write(kFabrics, connect_options(connection));
  } catch (const Error& error) {
    const bool missing = error.os_errno == EINVAL || error.kind == ErrorKind::kUnsupported;
    throw Error(missing ? ErrorKind::kUnsupported : error.kind, error.what(), remedy_of(connection, error.os_errno),
                error.os_errno);
  }
}

std::optional<std::string> NvmeHost::find_controller(const std::string& nqn) const {
  for (const std::string& name : tree_->list(kClass)) {
    std::string found;
    // One that cannot be read is about to go: not ours.
    if (succeeds([&] { found = tree_->read(std::string(kClass) + '/' + name + "/subsysnqn"); }) && found == nqn) {
      return name;
    }
  }
  return std::nullopt;
}

std::size_t NvmeHost::count_namespaces(const std::string& controller) const {
  std::size_t count = 0;
  for (const std::string& entry : tree_->list(std::string(kClass) + '/' + controller)) {
    const auto device = block_device_of(entry);
    if (device && tree_->exists(std::string(kBlock) + '/' + *device)) ++count;
  }
  return count;
}

void NvmeHost::disconnect(const std::string& controller) {
  tree_->write(std::string(kClass) + '/' + controller + "/delete_controller", "1");
}

}  // namespace mqlab::devices
