// Freeing a tag set under each protection: what it waits for, and what an iterator may still look at.
#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "blk/gendisk.h"
#include "blk/tag_set.h"
#include "platform/sim/platform.h"

using namespace mqlab;
using namespace mqlab::sim;
using blk::Disk;
using blk::ElvFlagLock;
using blk::TagSet;
using blk::TagsSrcu;

namespace {

constexpr TimeNs kMs = 1'000'000;

struct World {
  blk::Kernel<Platform> kernel;
  std::unique_ptr<TagSet<Platform>> set;
  std::unique_ptr<Disk<Platform>> disk;
  std::unique_ptr<Disk<Platform>> second;
};

void on_machine(const std::function<void(Machine&, World&)>& body, std::uint64_t seed = 1, TimeNs every_cost_ns = 0,
                TimeNs sysfs_ns = 0) {
  MachineConfig config;
  config.costs.fill(every_cost_ns);
  config.costs[platform::index(platform::Cost::kDelDiskSysfs)] = sysfs_ns;
  config.cpus = 4;
  config.seed = seed;
  Machine machine(config);
  std::unique_ptr<World> world;
  machine.run([&] {
    world = std::make_unique<World>();
    body(machine, *world);
  });
}

TimeNs elapsed(Machine& machine, const std::function<void()>& body) {
  const TimeNs start = machine.now_ns();
  body();
  return machine.now_ns() - start;
}

void make_set(World& world, TagsSrcu protection, unsigned queues = 1, bool blocking = false) {
  world.set = std::make_unique<TagSet<Platform>>(
      world.kernel, blk::TagSetConfig{.queues = queues, .depth = 8, .blocking = blocking, .tags_srcu = protection});
  world.set->alloc();
}

/// Frees the set while an iterator stands on one of its tags; returns how long the free took.
TimeNs free_under_iterator(TagsSrcu protection, TimeNs hold_ns) {
  TimeNs took = 0;
  on_machine([&](Machine& machine, World& world) {
    make_set(world, protection, 2);
    world.set->occupy(0);
    world.set->occupy(1);
    Task* iterator = machine.spawn(
        {.name = "iterator"}, [&] { world.set->busy_iter([&](unsigned, unsigned) { machine.sleep_ns(hold_ns); }); });
    machine.sleep_ns(kMs);
    took = elapsed(machine, [&] { world.set->free(); });
    machine.join(iterator);
  });
  return took;
}

}  // namespace

TEST_CASE("freeing a set with its own SRCU waits for a grace period, with the shared one for nothing") {
  for (const bool per_set : {true, false}) {
    on_machine([&](Machine& machine, World& world) {
      make_set(world, per_set ? TagsSrcu::kPerSet : TagsSrcu::kGlobal);
      CHECK(elapsed(machine, [&] { world.set->free(); }) == (per_set ? 4 * kMs : 0));
      CHECK(world.set->free_wait_ns() == (per_set ? 4 * kMs : 0));
    });
  }
}

TEST_CASE("only a set with its own SRCU owns per-CPU state, and more on more CPUs") {
  std::size_t before = 0;
  for (const unsigned cpus : {2U, 16U}) {
    MachineConfig config;
    config.cpus = cpus;
    Machine machine(config);
    std::unique_ptr<World> world;
    machine.run([&] {
      world = std::make_unique<World>();
      make_set(*world, TagsSrcu::kGlobal);
      CHECK(world->set->protection_bytes() == 0);
      make_set(*world, TagsSrcu::kPerSet);
      CHECK(world->set->protection_bytes() > before);
      before = world->set->protection_bytes();
    });
  }
}

TEST_CASE("a set is not freed under an iterator of its own, and one instance for all only postpones the memory") {
  CHECK(free_under_iterator(TagsSrcu::kPerSet, 20 * kMs) >= 20 * kMs);
  CHECK(free_under_iterator(TagsSrcu::kGlobal, 20 * kMs) == 0);
}

TEST_CASE("without protection the iterator is caught at freed memory") {
  CHECK_THROWS_WITH_AS(free_under_iterator(TagsSrcu::kUnprotected, 5 * kMs),
                       doctest::Contains("use after free of request map by iterator"), Error);
}

TEST_CASE("deleting a disk waits for the freeze and the quiesce, tick for tick") {
  // Freeze: one tick until the CPU asks, a grace period of 4, one tick until it is noticed. If the removal's other
  // callbacks came before that first tick, the same grace period frees them and the quiesce starts one of its own: 4.
  // If they came later, the end of the first has already started one for them, which the quiesce sits out before its
  // own: 8.
  for (const auto& [sysfs_ns, quiesce] : {std::pair{TimeNs{1000}, 4U}, std::pair{TimeNs{1'200'000}, 7U}}) {
    on_machine(
        [quiesce = quiesce](Machine& machine, World& world) {
          make_set(world, TagsSrcu::kGlobal);
          world.disk = std::make_unique<Disk<Platform>>(world.kernel, world.set.get());
          world.disk->add();
          const TimeNs took = elapsed(machine, [&] { world.disk->del(ElvFlagLock::kWrite); });
          CHECK(took >= (6 + quiesce) * kMs);
          CHECK(took < (6 + quiesce) * kMs + kMs / 2);
        },
        1, 1000, sysfs_ns);
  }
}

TEST_CASE("a set that may block quiesces by its own SRCU and saves RCU's grace periods") {
  on_machine([](Machine& machine, World& world) {
    make_set(world, TagsSrcu::kGlobal, 4, true);
    world.disk = std::make_unique<Disk<Platform>>(world.kernel, world.set.get());
    world.disk->add();
    const TimeNs took = elapsed(machine, [&] { world.disk->del(ElvFlagLock::kWrite); });
    CHECK(took >= 6 * kMs);
    CHECK(took < 7 * kMs);
  });
}

TEST_CASE("two disks of a set are deleted one after another under the write lock, at once under the read lock") {
  const auto deleting = [](unsigned disks, ElvFlagLock lock) {
    TimeNs took = 0;
    on_machine([&](Machine& machine, World& world) {
      make_set(world, TagsSrcu::kGlobal, 4, true);
      world.disk = std::make_unique<Disk<Platform>>(world.kernel, world.set.get());
      world.second = std::make_unique<Disk<Platform>>(world.kernel, world.set.get());
      world.disk->add();
      world.second->add();
      took = elapsed(machine, [&] {
        Task* other = machine.spawn({.name = "other"}, [&] {
          if (disks == 2) world.second->del(lock);
        });
        world.disk->del(lock);
        machine.join(other);
      });
      if (disks == 1) world.second->del(lock);
    });
    return took;
  };
  const TimeNs one = deleting(1, ElvFlagLock::kRead);
  const TimeNs at_once = deleting(2, ElvFlagLock::kRead);
  const TimeNs in_turn = deleting(2, ElvFlagLock::kWrite);
  // At once: the second may just miss the grace period of the first (4 ticks) and the tick that starts its own.
  CHECK(at_once <= one + 5 * kMs);
  // In turn: a removal more. On a real 7.3.4 each further namespace of a controller takes 5.2 ms under the write lock.
  CHECK(in_turn >= 2 * one);
  CHECK(in_turn >= at_once + 4 * kMs);
}

TEST_CASE("an elevator switch from sysfs is refused once the disk is being deleted, under either lock") {
  for (const ElvFlagLock lock : {ElvFlagLock::kWrite, ElvFlagLock::kRead}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      on_machine(
          [&](Machine& machine, World& world) {
            make_set(world, TagsSrcu::kGlobal, 2);
            world.disk = std::make_unique<Disk<Platform>>(world.kernel, world.set.get());
            world.disk->add();
            Task* writer = machine.spawn({.name = "sysfs"}, [&] {
              machine.sleep_ns(Platform::random_below(30 * kMs));
              const bool switched = world.disk->switch_elevator(true);
              CHECK((!switched || machine.now_ns() < 60 * kMs));
            });
            machine.sleep_ns(15 * kMs);
            world.disk->del(lock);
            CHECK_FALSE(world.disk->has_elevator());
            machine.join(writer);
          },
          seed);
    }
  }
}

TEST_CASE("a depth change replaces the maps under readers without a report") {
  on_machine([](Machine& machine, World& world) {
    make_set(world, TagsSrcu::kPerSet, 2);
    world.set->occupy(0);
    Task* iterator = machine.spawn(
        {.name = "iterator"}, [&] { world.set->busy_iter([&](unsigned, unsigned) { machine.sleep_ns(10 * kMs); }); });
    machine.sleep_ns(kMs);
    world.set->resize(32);
    CHECK(world.set->config().depth == 32);
    machine.join(iterator);
    world.set->free();
  });
}

TEST_CASE("a change of nr_hw_queues freezes the set's disks, and waits for a deletion that is under way") {
  on_machine([](Machine& machine, World& world) {
    make_set(world, TagsSrcu::kPerSet, 2, true);
    world.disk = std::make_unique<Disk<Platform>>(world.kernel, world.set.get());
    world.disk->add();
    CHECK(elapsed(machine, [&] { world.set->update_nr_hw_queues(4); }) >= 5 * kMs);  // the freeze's grace period
    CHECK(world.set->config().queues == 4);
    CHECK(world.disk->usage().try_enter());
    world.disk->usage().leave();

    Task* deleter = machine.spawn({.name = "deleter"}, [&] { world.disk->del(ElvFlagLock::kRead); });
    machine.sleep_ns(kMs);
    const TimeNs waited = elapsed(machine, [&] { world.set->update_nr_hw_queues(1); });
    CHECK(waited >= 4 * kMs);  // until the deletion lets the lock go; no disk is left to freeze
    machine.join(deleter);
    CHECK_FALSE(world.disk->usage().try_enter());
    world.set->free();
  });
}
