// The host's side of NVMe over fabrics: connect, find the controller, count its namespaces, disconnect. No tool of
// user space is needed; the kernel's own files do it all.
//
// Thread safety: stateless; any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "devices/control_tree.h"

namespace mqlab::devices {

struct FabricsConnection {
  std::string nqn;
  std::string transport = "tcp";  // or "loop"
  std::uint16_t service = 0;      // TCP port number on 127.0.0.1
  unsigned queues = 4;            // for I/O
};

// What is written to the kernel for it.
std::string connect_options(const FabricsConnection& connection);

class NvmeHost {
 public:
  // Throws kUnsupported where fabrics are missing. The tree must outlive the host.
  explicit NvmeHost(ControlTree& tree);

  // Returns when the controller is live; its namespaces are scanned in the background.
  void connect(const FabricsConnection& connection);

  // The controller that is connected to a subsystem, such as "nvme3".
  std::optional<std::string> find_controller(const std::string& nqn) const;

  // Namespaces of a controller whose block device is there, that of the multipath head where there is one.
  std::size_t count_namespaces(const std::string& controller) const;

  // Returns when the controller and its namespaces are gone.
  void disconnect(const std::string& controller);

 private:
  ControlTree* tree_;
};

}  // namespace mqlab::devices
