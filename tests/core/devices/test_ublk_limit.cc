#include <doctest/doctest.h>

#include <string>

#include "devices/ublk_limit.h"
#include "fake_tree.h"

namespace mqlab::devices {

namespace {
const std::string kLimit = "/sys/module/ublk_drv/parameters/ublks_max";
}

TEST_CASE("the limit of devices is raised above those that are there, and given back") {
  FakeTree tree;
  tree.add(kLimit, "64");
  tree.add("/sys/class/ublk-char/ublkc0");
  {
    const UblkDeviceLimit limit(tree, 100);
    CHECK(tree.read(kLimit) == "101");
  }
  CHECK(tree.read(kLimit) == "64");
}

TEST_CASE("a limit that suffices, is missing, or cannot be written is left alone") {
  FakeTree tree;
  {
    const UblkDeviceLimit missing(tree, 100);
  }
  CHECK(tree.log.empty());
  tree.add(kLimit, "64");
  {
    const UblkDeviceLimit enough(tree, 64);
  }
  CHECK(tree.log.empty());
  tree.failing_step = 0;
  {
    const UblkDeviceLimit read_only(tree, 100);
  }
  CHECK(tree.read(kLimit) == "64");
  CHECK(tree.log.size() == 1);
}

}  // namespace mqlab::devices
