#include "devices/nvmet.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <functional>

#include "base/error.h"

namespace mqlab::devices {
namespace {

constexpr const char* kAddress = "127.0.0.1";
constexpr std::uint16_t kFirstService = 4420;
constexpr unsigned kServices = 100;
constexpr unsigned kPorts = 1000;

std::string root() { return std::string(kConfigfs) + "/nvmet"; }
std::string subsystem_of(const std::string& nqn) { return root() + "/subsystems/" + nqn; }

[[noreturn]] void rethrow_with(const Error& error, const std::string& remedy) {
  throw Error(ErrorKind::kUnsupported, error.what(), remedy, error.os_errno);
}

}  // namespace

NvmetTarget::NvmetTarget(ControlTree& tree, const NvmetOptions& options)
    : tree_(&tree), nqn_(options.nqn), transport_(options.transport) {
  if (!tree.exists(root())) {
    throw Error(ErrorKind::kUnsupported, "there is no NVMe target in configfs: no folder " + root(),
                "load the module nvmet (CONFIG_NVME_TARGET) and mount configfs on " + std::string(kConfigfs));
  }
  add_subsystem();
  for (std::size_t i = 0; i < options.devices.size(); ++i) add_namespace(i + 1, options.devices[i]);
  add_port();
}

void NvmetTarget::make_folder(const std::string& path) {
  tree_->make_folder(path);
  undo_.push([tree = tree_, path] { tree->remove_folder(path); });
}

void NvmetTarget::add_subsystem() {
  make_folder(subsystem_of(nqn_));
  tree_->write(subsystem_of(nqn_) + "/attr_allow_any_host", "1");
}

void NvmetTarget::add_namespace(std::size_t number, const std::string& device) {
  const std::string path = subsystem_of(nqn_) + "/namespaces/" + std::to_string(number);
  make_folder(path);
  tree_->write(path + "/device_path", device);
  tree_->write(path + "/enable", "1");
  undo_.push([tree = tree_, path] { tree->write(path + "/enable", "0"); });
}

void NvmetTarget::add_port() {
  for (unsigned id = 1; id <= kPorts; ++id) {
    const std::string port = root() + "/ports/" + std::to_string(id);
    if (tree_->exists(port)) continue;
    try {
      make_folder(port);
    } catch (const Error& error) {
      if (error.os_errno == EEXIST) continue;  // another program was faster
      throw;
    }
    open_port(port);
    return;
  }
  throw Error(ErrorKind::kSystem, "all of the first " + std::to_string(kPorts) + " ports of the NVMe target are taken",
              "remove those that are not used from " + root() + "/ports");
}

// The kernel opens the port when the first subsystem is linked to it; only then it tells that a number is taken, or
// that it has no such transport.
void NvmetTarget::open_port(const std::string& port) {
  const std::string link = port + "/subsystems/" + nqn_;
  tree_->write(port + "/addr_trtype", transport_);
  const bool tcp = transport_ == "tcp";
  if (tcp) {
    tree_->write(port + "/addr_adrfam", "ipv4");
    tree_->write(port + "/addr_traddr", kAddress);
  }
  for (unsigned i = 0;; ++i) {
    if (tcp) {
      service_ = static_cast<std::uint16_t>(kFirstService + i);
      tree_->write(port + "/addr_trsvcid", std::to_string(service_));
    }
    try {
      tree_->make_link(link, subsystem_of(nqn_));
      undo_.push([tree = tree_, link] { tree->remove_link(link); });
      return;
    } catch (const Error& error) {
      if (tcp && error.os_errno == EADDRINUSE && i + 1 < kServices) continue;
      if (error.os_errno == EINVAL || error.os_errno == EPROTONOSUPPORT) {
        rethrow_with(error, "load the module " + std::string(tcp ? "nvmet-tcp" : "nvme-loop") +
                                ": the target has no transport " + transport_);
      }
      throw;
    }
  }
}

std::string NvmetTarget::fresh_nqn() {
  static std::atomic<std::uint64_t> next{0};
  return "nqn.2026-01.org.mqlab:target-" + std::to_string(getpid()) + '-' +
         std::to_string(next.fetch_add(1, std::memory_order_relaxed));
}

}  // namespace mqlab::devices
