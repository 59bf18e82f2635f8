// A target of NVMe over fabrics on this machine: a subsystem with namespaces, and a port to reach it by, made
// through configfs.
//
// Thread safety: none; an object belongs to one thread. Several targets may exist at once.
//
// Invariants: the constructor makes all of it or throws and leaves nothing. Removal goes backwards: the port lets
// go of the subsystem first, which ends its connections, then namespaces are disabled and all folders removed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devices/control_tree.h"
#include "devices/undo.h"

namespace mqlab::devices {

struct NvmetOptions {
  std::string nqn;                   // see fresh_nqn()
  std::string transport = "tcp";     // or "loop"
  std::vector<std::string> devices;  // one namespace each, numbered from 1
};

class NvmetTarget {
 public:
  // Throws kUnsupported where the target or the transport is missing. The tree must outlive the target.
  NvmetTarget(ControlTree& tree, const NvmetOptions& options);

  // Throws what went wrong; everything that could be removed is gone then. The destructor does the same silently.
  void remove() { undo_.undo_all(); }

  // The TCP port number that was free; 0 for loop.
  std::uint16_t service() const { return service_; }

  // Never the same twice in a process, and not that of another process.
  static std::string fresh_nqn();

 private:
  void make_folder(const std::string& path);
  void add_subsystem();
  void add_namespace(std::size_t number, const std::string& device);
  void add_port();
  void open_port(const std::string& port);

  ControlTree* tree_;
  std::string nqn_;
  std::string transport_;
  std::uint16_t service_ = 0;
  UndoStack undo_;
};

}  // namespace mqlab::devices
