#include <doctest/doctest.h>

#include <string>

#include "base/error.h"
#include "devices/null_blk.h"
#include "fake_tree.h"

namespace mqlab::devices {

TEST_CASE("a null_blk device comes with its attributes, and nothing of it is left after it was destroyed") {
  FakeTree tree;
  NullBlkDriver driver(tree);
  CHECK(driver.features().count("submit_queues") == 1);
  driver.create("one", {.queues = 3, .depth = 17, .size_mib = 5, .block_bytes = 4096, .memory_backed = true});
  const std::string folder = std::string(kConfigfs) + "/nullb/one";
  CHECK(tree.read(folder + "/submit_queues") == "3");
  CHECK(tree.read(folder + "/hw_queue_depth") == "17");
  CHECK(tree.read(folder + "/size") == "5");
  CHECK(tree.read(folder + "/blocksize") == "4096");
  CHECK(tree.read(folder + "/memory_backed") == "1");
  CHECK(tree.exists(NullBlkDriver::node("one")));
  driver.destroy("one");
  CHECK(tree.is_pristine());
  CHECK(tree.log.back() == "rmdir " + folder);
  CHECK(tree.log[tree.log.size() - 2] == "write " + folder + "/power 0");
}

TEST_CASE("whichever step of creating a null_blk device fails, nothing is left") {
  FakeTree whole;
  NullBlkDriver(whole).create("one", {.memory_backed = true});
  for (unsigned failing = 0; failing < whole.steps; ++failing) {
    CAPTURE(failing);
    FakeTree tree;
    tree.failing_step = failing;
    NullBlkDriver driver(tree);
    CHECK_THROWS_AS(driver.create("one", {.memory_backed = true}), Error);
    CHECK_MESSAGE(tree.is_pristine(), tree.leftovers());
  }
}

TEST_CASE("an attribute that a kernel does not have is told, and the device does not stay half made") {
  FakeTree tree;
  tree.lacking = {"memory_backed"};
  NullBlkDriver driver(tree);
  try {
    driver.create("one", {.memory_backed = true});
    FAIL("created");
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kUnsupported);
    CHECK(std::string(error.what()).find("memory_backed") != std::string::npos);
    CHECK_FALSE(error.remedy.empty());
  }
  CHECK(tree.is_pristine());
  driver.create("one", {});  // what is not asked for is not missed
}

TEST_CASE("a device that is gone already is destroyed") {
  FakeTree tree;
  NullBlkDriver driver(tree);
  driver.destroy("never-made");
  CHECK(tree.is_pristine());
}

TEST_CASE("without configfs or without the driver the reason and the module are told") {
  for (const std::string& missing : {std::string(kConfigfs), std::string(kConfigfs) + "/nullb"}) {
    FakeTree tree;
    tree.drop(missing);
    try {
      const NullBlkDriver driver(tree);
      FAIL("found");
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::kUnsupported);
      CHECK(std::string(error.what()).find(missing) != std::string::npos);
      CHECK(error.remedy.find("CONFIG_") != std::string::npos);
    }
  }
}

TEST_CASE("options that the kernel would refuse or change are refused before it sees them") {
  NullBlkDriver::check({}, 1);
  NullBlkDriver::check({.queues = 16, .depth = 10240}, 16);
  CHECK_THROWS_WITH_AS(NullBlkDriver::check({.queues = 17}, 16), "null_blk: a number of queues of 17 is not possible",
                       Error);
  CHECK_THROWS_AS(NullBlkDriver::check({.queues = 0}, 16), Error);
  CHECK_THROWS_AS(NullBlkDriver::check({.depth = 0}, 16), Error);
  CHECK_THROWS_AS(NullBlkDriver::check({.size_mib = 0}, 16), Error);
  CHECK_THROWS_AS(NullBlkDriver::check({.block_bytes = 768}, 16), Error);
  CHECK_THROWS_AS(NullBlkDriver::check({.block_bytes = 8192}, 16), Error);
}

TEST_CASE("no two fresh names are the same, and each fits a disk's name") {
  const std::string first = NullBlkDriver::fresh_name();
  CHECK(first != NullBlkDriver::fresh_name());
  CHECK(first.size() < 32);
}

}  // namespace mqlab::devices
