// Devices' lives: what the drivers' locks serialise and what the policies change.
#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <vector>

#include "drivers/null_blk.h"
#include "drivers/nvme.h"
#include "drivers/ublk.h"
#include "platform/sim/platform.h"

using namespace mqlab;
using namespace mqlab::sim;
using blk::ElvFlagLock;
using blk::TagsSrcu;

namespace {

constexpr TimeNs kMs = 1'000'000;

struct World {
  blk::Kernel<Platform> kernel;
  std::unique_ptr<drivers::UblkControl<Platform>> ublk;
  std::vector<std::unique_ptr<drivers::UblkDevice<Platform>>> ublk_devices;
  std::unique_ptr<drivers::NullBlk<Platform>> null_blk;
  std::vector<std::unique_ptr<drivers::NullBlkDevice<Platform>>> null_blk_devices;
  std::unique_ptr<drivers::NvmeController<Platform>> nvme;
};

void on_machine(const std::function<void(Machine&, World&)>& body) {
  MachineConfig config;
  config.cpus = 16;
  Machine machine(config);
  std::unique_ptr<World> world;
  machine.run([&] {
    world = std::make_unique<World>();
    body(machine, *world);
  });
}

TimeNs all_at_once(Machine& machine, std::size_t count, const std::function<void(std::size_t)>& step) {
  const TimeNs begin = machine.now_ns();
  std::vector<Task*> tasks;
  for (std::size_t i = 0; i < count; ++i) tasks.push_back(machine.spawn({}, [&step, i] { step(i); }));
  for (Task* task : tasks) machine.join(task);
  return machine.now_ns() - begin;
}

TimeNs delete_ublk(TagsSrcu protection, drivers::UblkFinalPut put) {
  TimeNs took = 0;
  on_machine([&](Machine& machine, World& world) {
    constexpr std::size_t kDevices = 8;
    world.ublk = std::make_unique<drivers::UblkControl<Platform>>(
        world.kernel, drivers::UblkPolicies{.final_put = put, .elv_flag_lock = ElvFlagLock::kWrite});
    for (std::size_t i = 0; i < kDevices; ++i) {
      world.ublk_devices.push_back(std::make_unique<drivers::UblkDevice<Platform>>(
          world.kernel, blk::TagSetConfig{.queues = 1, .depth = 16, .blocking = false, .tags_srcu = protection}));
      world.ublk->add_dev(*world.ublk_devices.back());
    }
    took = all_at_once(machine, kDevices, [&](std::size_t i) { world.ublk->del_dev(*world.ublk_devices[i]); });
  });
  return took;
}

TimeNs disconnect(drivers::NvmeTransport transport, drivers::NsRemoval removal, ElvFlagLock lock, unsigned namespaces) {
  TimeNs took = 0;
  on_machine([&](Machine& machine, World& world) {
    world.nvme = std::make_unique<drivers::NvmeController<Platform>>(
        world.kernel, drivers::NvmeConfig{.transport = transport, .namespaces = namespaces},
        drivers::NvmePolicies{.removal = removal, .elv_flag_lock = lock});
    world.nvme->connect();
    machine.sleep_ns(100 * kMs);
    const TimeNs begin = machine.now_ns();
    world.nvme->delete_ctrl();
    took = machine.now_ns() - begin;
    CHECK(world.nvme->removals().size() == namespaces);
  });
  return took;
}

}  // namespace

TEST_CASE("ublk's mutex serialises the grace periods of DEL_DEV; outside of it they overlap") {
  using drivers::UblkFinalPut;
  CHECK(delete_ublk(TagsSrcu::kPerSet, UblkFinalPut::kUnderMutex) >= 8 * 4 * kMs);
  CHECK(delete_ublk(TagsSrcu::kPerSet, UblkFinalPut::kOutsideMutex) <= 7 * kMs);
  CHECK(delete_ublk(TagsSrcu::kGlobal, UblkFinalPut::kUnderMutex) == 0);
  CHECK(delete_ublk(TagsSrcu::kGlobal, UblkFinalPut::kOutsideMutex) == 0);
}

TEST_CASE("null_blk's mutex is held over a device's whole deletion") {
  on_machine([](Machine& machine, World& world) {
    constexpr std::size_t kDevices = 4;
    world.null_blk = std::make_unique<drivers::NullBlk<Platform>>(world.kernel, ElvFlagLock::kWrite);
    for (std::size_t i = 0; i < kDevices; ++i) {
      world.null_blk_devices.push_back(std::make_unique<drivers::NullBlkDevice<Platform>>(
          world.kernel,
          blk::TagSetConfig{.queues = 1, .depth = 16, .blocking = false, .tags_srcu = TagsSrcu::kGlobal}));
      world.null_blk->create(*world.null_blk_devices.back());
    }
    const TimeNs took =
        all_at_once(machine, kDevices, [&](std::size_t i) { world.null_blk->destroy(*world.null_blk_devices[i]); });
    CHECK(took >= kDevices * 10 * kMs);
  });
}

TEST_CASE("namespaces in parallel share grace periods, and the write lock takes most of that back") {
  using drivers::NsRemoval;
  using drivers::NvmeTransport;
  for (const NvmeTransport transport : {NvmeTransport::kTcp, NvmeTransport::kLoop}) {
    const TimeNs serial = disconnect(transport, NsRemoval::kSerial, ElvFlagLock::kWrite, 16);
    const TimeNs parallel = disconnect(transport, NsRemoval::kParallel, ElvFlagLock::kWrite, 16);
    const TimeNs read_lock = disconnect(transport, NsRemoval::kParallel, ElvFlagLock::kRead, 16);
    CHECK(parallel < serial * 9 / 10);
    CHECK(read_lock < parallel / 2);
  }
}

TEST_CASE("a serial disconnect takes a fixed time a namespace, a parallel one hardly more for more of them") {
  using drivers::NsRemoval;
  using drivers::NvmeTransport;
  const auto serial = [](unsigned n) {
    return disconnect(NvmeTransport::kTcp, NsRemoval::kSerial, ElvFlagLock::kWrite, n);
  };
  const TimeNs each = (serial(24) - serial(8)) / 16;
  CHECK(each >= 15 * kMs);  // several grace periods of 4 jiffies and the ticks around them
  CHECK(each <= 22 * kMs);
  const auto parallel = [](unsigned n) {
    return disconnect(NvmeTransport::kTcp, NsRemoval::kParallel, ElvFlagLock::kRead, n);
  };
  CHECK(parallel(32) <= parallel(8) + 10 * kMs);
}

TEST_CASE("loop needs RCU's grace periods where tcp needs SRCU's, so it takes longer a namespace") {
  using drivers::NsRemoval;
  using drivers::NvmeTransport;
  CHECK(disconnect(NvmeTransport::kLoop, NsRemoval::kSerial, ElvFlagLock::kWrite, 16) >
        disconnect(NvmeTransport::kTcp, NsRemoval::kSerial, ElvFlagLock::kWrite, 16) + 16 * 3 * kMs);
}
