// A configfs in memory with the rules of null_blk and of the NVMe target that matter for making and removing things:
// attributes come with a folder, a folder in use cannot go, and any step can be made to fail.
//
// Thread safety: none.
#pragma once

#include <cerrno>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "devices/control_tree.h"

namespace mqlab::devices {

class FakeTree final : public ControlTree {
 public:
  FakeTree() {
    const std::string root = kConfigfs;
    for (const char* folder : {"", "/nullb", "/nvmet", "/nvmet/subsystems", "/nvmet/ports"}) nodes_[root + folder];
    nodes_[root + "/nullb/features"] = "memory_backed,size,submit_queues";
    nodes_["/dev/nvme-fabrics"] = "";
    pristine_ = nodes_;
  }

  // The step with this number, counted from 0, is answered with EIO.
  std::optional<unsigned> failing_step;
  unsigned steps = 0;
  std::vector<std::string> log;
  std::set<std::string> lacking;  // attributes that this kernel does not have
  std::set<std::string> transports = {"tcp", "loop"};
  std::set<std::string> taken_services;

  bool is_pristine() const { return nodes_ == pristine_; }
  std::string leftovers() const {
    std::string text;
    for (const auto& [path, value] : nodes_) {
      if (pristine_.count(path) == 0) text += path + '\n';
    }
    return text;
  }
  void add(const std::string& path, const std::string& value = "") { nodes_[path] = value; }
  void drop(const std::string& path) { nodes_.erase(path); }

  bool exists(const std::string& path) const override { return nodes_.count(path) != 0; }

  std::vector<std::string> list(const std::string& path) const override {
    std::vector<std::string> names;
    for (const auto& [node, value] : nodes_) {
      if (parent(node) == path) names.push_back(name(node));
    }
    return names;
  }

  std::string read(const std::string& path) const override {
    if (!exists(path)) fail("reading " + path, ENOENT);
    return nodes_.at(path);
  }

  void write(const std::string& path, const std::string& text) override {
    step("write " + path + ' ' + text);
    if (!exists(path)) fail("writing " + path, ENOENT);
    if (name(path) == "power") set_power(parent(path), text);
    if (name(path) == "enable" && text == "1" && !exists(nodes_.at(parent(path) + "/device_path"))) {
      fail("writing " + path, ENOENT);
    }
    nodes_[path] = text;
  }

  void make_folder(const std::string& path) override {
    step("mkdir " + path);
    if (exists(path)) fail("making " + path, EEXIST);
    if (!exists(parent(path))) fail("making " + path, ENOENT);
    nodes_[path];
    for (const char* child : children_of(path)) {
      if (lacking.count(child) == 0) nodes_[path + '/' + child];
    }
  }

  void remove_folder(const std::string& path) override {
    step("rmdir " + path);
    if (!exists(path)) return;
    if (is_used(path)) fail("removing " + path, EBUSY);
    if (name(parent(path)) == "nullb" && nodes_.at(path + "/power") == "1") set_power(path, "0");
    nodes_.erase(path);
    std::erase_if(nodes_, [&](const auto& node) { return node.first.starts_with(path + '/'); });
  }

  void make_link(const std::string& path, const std::string& target) override {
    step("link " + path);
    if (!exists(target) || !exists(parent(path))) fail("linking " + path, ENOENT);
    const std::string port = parent(parent(path));
    if (transports.count(nodes_.at(port + "/addr_trtype")) == 0) fail("linking " + path, EINVAL);
    if (taken_services.count(nodes_.at(port + "/addr_trsvcid")) != 0) fail("linking " + path, EADDRINUSE);
    nodes_[path] = target;
  }

  void remove_link(const std::string& path) override {
    step("unlink " + path);
    nodes_.erase(path);
  }

 private:
  static std::string parent(const std::string& path) { return path.substr(0, path.rfind('/')); }
  static std::string name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

  [[noreturn]] static void fail(const std::string& what, int err) {
    throw Error(ErrorKind::kSystem, what + " failed", "none: this is a test", err);
  }

  void step(const std::string& what) {
    log.push_back(what);
    if (steps++ == failing_step) fail(what, EIO);
  }

  void set_power(const std::string& device, const std::string& text) {
    const std::string node = "/dev/" + name(device);
    if (text == "1") {
      nodes_[node];
    } else {
      if (is_used(device)) fail("switching off " + device, EBUSY);
      nodes_.erase(node);
    }
    nodes_[device + "/power"] = text;
  }

  static std::vector<const char*> children_of(const std::string& path) {
    const std::string kind = name(parent(path));
    if (kind == "nullb") return {"submit_queues", "hw_queue_depth", "size", "blocksize", "memory_backed", "power"};
    if (kind == "subsystems") return {"attr_allow_any_host", "namespaces", "allowed_hosts"};
    if (kind == "namespaces") return {"device_path", "enable"};
    if (kind == "ports")
      return {"addr_trtype", "addr_adrfam", "addr_traddr", "addr_trsvcid", "subsystems", "referrals"};
    return {};
  }

  bool is_used(const std::string& path) const {
    for (const auto& [node, value] : nodes_) {
      if (value == path) return true;  // a link to it
      const bool inside = node.starts_with(path + "/namespaces/") || node.starts_with(path + "/subsystems/");
      if (inside) return true;
      const bool opened =
          name(node) == "enable" && value == "1" && nodes_.at(parent(node) + "/device_path") == "/dev/" + name(path);
      if (opened) return true;
    }
    return false;
  }

  std::map<std::string, std::string> nodes_;
  std::map<std::string, std::string> pristine_;
};

}  // namespace mqlab::devices
