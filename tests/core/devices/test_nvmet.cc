#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "base/error.h"
#include "devices/null_blk.h"
#include "devices/nvmet.h"
#include "fake_tree.h"

namespace mqlab::devices {

namespace {

constexpr const char* kNqn = "nqn.2026-01.org.mqlab:test";
const std::string kRoot = std::string(kConfigfs) + "/nvmet";
const std::string kSubsystem = kRoot + "/subsystems/" + kNqn;

void add_backing(FakeTree& tree) {
  NullBlkDriver driver(tree);
  driver.create("one", {});
  driver.create("two", {});
}

void remove_backing(FakeTree& tree) {
  NullBlkDriver driver(tree);
  driver.destroy("one");
  driver.destroy("two");
}

NvmetOptions options_for(const std::string& transport = "tcp") {
  return {.nqn = kNqn, .transport = transport, .devices = {"/dev/one", "/dev/two"}};
}

std::ptrdiff_t place_of(const FakeTree& tree, const std::string& line) {
  return std::find(tree.log.begin(), tree.log.end(), line) - tree.log.begin();
}

}  // namespace

TEST_CASE("a target has its namespaces and a port, and is removed from the outside in") {
  FakeTree tree;
  add_backing(tree);
  NvmetTarget target(tree, options_for());
  CHECK(target.service() == 4420);
  CHECK(tree.read(kSubsystem + "/attr_allow_any_host") == "1");
  CHECK(tree.read(kSubsystem + "/namespaces/1/device_path") == "/dev/one");
  CHECK(tree.read(kSubsystem + "/namespaces/2/enable") == "1");
  CHECK(tree.read(kRoot + "/ports/1/addr_trtype") == "tcp");
  CHECK(tree.exists(kRoot + "/ports/1/subsystems/" + kNqn));

  tree.log.clear();
  target.remove();
  const auto unlinked = place_of(tree, "unlink " + kRoot + "/ports/1/subsystems/" + kNqn);
  const auto disabled = place_of(tree, "write " + kSubsystem + "/namespaces/1/enable 0");
  const auto folder = place_of(tree, "rmdir " + kSubsystem);
  CHECK(unlinked < disabled);
  CHECK(disabled < folder);
  CHECK(folder < static_cast<std::ptrdiff_t>(tree.log.size()));
  remove_backing(tree);
  CHECK_MESSAGE(tree.is_pristine(), tree.leftovers());
}

TEST_CASE("whichever step of making a target fails, nothing of it is left") {
  for (const char* transport : {"tcp", "loop"}) {
    FakeTree whole;
    add_backing(whole);
    const unsigned before = whole.steps;
    const auto target = std::make_unique<NvmetTarget>(whole, options_for(transport));
    const unsigned after = whole.steps;
    REQUIRE(after > before);
    for (unsigned failing = before; failing < after; ++failing) {
      CAPTURE(failing);
      FakeTree tree;
      add_backing(tree);
      tree.failing_step = failing;
      CHECK_THROWS_AS(NvmetTarget(tree, options_for(transport)), Error);
      remove_backing(tree);
      CHECK_MESSAGE(tree.is_pristine(), tree.leftovers());
    }
  }
}

TEST_CASE("a namespace whose device is not there takes back those before it") {
  FakeTree tree;
  add_backing(tree);
  NvmetOptions options = options_for();
  options.devices.emplace_back("/dev/no-such");
  CHECK_THROWS_AS(NvmetTarget(tree, options), Error);
  remove_backing(tree);
  CHECK_MESSAGE(tree.is_pristine(), tree.leftovers());
}

TEST_CASE("when one removal fails the others are done, and the failure is told") {
  FakeTree whole;
  add_backing(whole);
  {
    const NvmetTarget target(whole, options_for());
  }
  const unsigned last = whole.steps;
  FakeTree tree;
  add_backing(tree);
  NvmetTarget target(tree, options_for());
  tree.failing_step = last - 2;  // the first namespace's folder, whose subsystem can then not go either
  CHECK_THROWS_WITH(target.remove(), ("rmdir " + kSubsystem + "/namespaces/1 failed").c_str());
  CHECK(tree.steps == last);
  CHECK_FALSE(tree.exists(kRoot + "/ports/1"));
  CHECK_FALSE(tree.exists(kSubsystem + "/namespaces/2"));
}

TEST_CASE("ports and numbers that are taken are passed over") {
  FakeTree tree;
  add_backing(tree);
  tree.add(kRoot + "/ports/1");
  tree.taken_services = {"4420", "4421"};
  const NvmetTarget target(tree, options_for());
  CHECK(target.service() == 4422);
  CHECK(tree.exists(kRoot + "/ports/2/subsystems/" + kNqn));
}

TEST_CASE("a transport that the target does not have is told with its module") {
  FakeTree tree;
  add_backing(tree);
  tree.transports = {"tcp"};
  try {
    const NvmetTarget target(tree, options_for("loop"));
    FAIL("made");
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kUnsupported);
    CHECK(error.remedy.find("nvme-loop") != std::string::npos);
  }
  remove_backing(tree);
  CHECK(tree.is_pristine());
}

TEST_CASE("without the target the reason and the module are told") {
  FakeTree tree;
  tree.drop(kRoot);
  CHECK_THROWS_WITH_AS(NvmetTarget(tree, options_for()),
                       ("there is no NVMe target in configfs: no folder " + kRoot).c_str(), Error);
}

}  // namespace mqlab::devices
