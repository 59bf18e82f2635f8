#include <doctest/doctest.h>

#include <string>

#include "base/error.h"
#include "devices/nvme_host.h"
#include "fake_tree.h"

namespace mqlab::devices {

namespace {

const std::string kClass = "/sys/class/nvme";

void add_controller(FakeTree& tree, const std::string& name, const std::string& nqn) {
  tree.add(kClass + '/' + name);
  tree.add(kClass + '/' + name + "/subsysnqn", nqn);
  tree.add(kClass + '/' + name + "/delete_controller");
}

}  // namespace

TEST_CASE("the options of a connection name transport, address, subsystem and queues") {
  const std::string tcp = connect_options({.nqn = "nqn.x", .transport = "tcp", .service = 4421, .queues = 3});
  CHECK(tcp.starts_with("transport=tcp,traddr=127.0.0.1,trsvcid=4421,nqn=nqn.x,nr_io_queues=3,"));
  const std::string loop = connect_options({.nqn = "nqn.x", .transport = "loop"});
  CHECK(loop.starts_with("transport=loop,nqn=nqn.x,nr_io_queues=4,"));
}

TEST_CASE("a controller is found by its subsystem, not by its number") {
  FakeTree tree;
  add_controller(tree, "nvme0", "nqn.other");
  add_controller(tree, "nvme7", "nqn.ours");
  NvmeHost host(tree);
  CHECK(host.find_controller("nqn.ours") == "nvme7");
  CHECK_FALSE(host.find_controller("nqn.nobody").has_value());
  host.disconnect("nvme7");
  CHECK(tree.read(kClass + "/nvme7/delete_controller") == "1");
}

TEST_CASE("a namespace counts once its block device is there, with multipath and without") {
  FakeTree tree;
  add_controller(tree, "nvme7", "nqn.ours");
  for (const char* entry : {"nvme7n1", "nvme2c7n2", "nvme2c7n3", "nvme7n1p1", "power", "nvme", "nvme7nx", "ng7n1"}) {
    tree.add(kClass + "/nvme7/" + entry);
  }
  const NvmeHost host(tree);
  CHECK(host.count_namespaces("nvme7") == 0);
  tree.add("/sys/block/nvme7n1");
  CHECK(host.count_namespaces("nvme7") == 1);
  tree.add("/sys/block/nvme2c7n2");  // a path alone is not yet the namespace
  CHECK(host.count_namespaces("nvme7") == 1);
  tree.add("/sys/block/nvme2n2");
  tree.add("/sys/block/nvme2n3");
  CHECK(host.count_namespaces("nvme7") == 3);
  CHECK(host.count_namespaces("nvme9") == 0);
}

TEST_CASE("without fabrics the reason and the modules are told") {
  FakeTree tree;
  tree.drop("/dev/nvme-fabrics");
  try {
    const NvmeHost host(tree);
    FAIL("found");
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kUnsupported);
    CHECK(error.remedy.find("nvme-tcp") != std::string::npos);
  }
}

}  // namespace mqlab::devices
