// The stages of a CPU's RCU callbacks, and what ends an RCU wait sooner or later than the rule of thumb.
#include <doctest/doctest.h>

#include <functional>
#include <memory>

#include "platform/sim/platform.h"
#include "reclaim/rcu.h"
#include "reclaim/rcu_callbacks.h"

using namespace mqlab;
using namespace mqlab::sim;
using reclaim::Rcu;
using reclaim::RcuCallbacks;

namespace {

constexpr TimeNs kMs = 1'000'000;
constexpr std::uint64_t kNone = 0;

struct World {
  platform::WorkQueue<Platform> queue{"rcu_gp"};
  Rcu<Platform> rcu{queue};
};

/// HZ is 1000 and costs are nil.
void on_machine(const std::function<void(Machine&, World&)>& body) {
  MachineConfig config;
  config.cpus = 4;
  Machine machine(config);
  std::unique_ptr<World> world;
  machine.run([&] {
    world = std::make_unique<World>();
    body(machine, *world);
  });
}

}  // namespace

TEST_CASE("a callback is done when its normal or its expedited grace period has ended") {
  for (const bool expedited : {false, true}) {
    RcuCallbacks callbacks;
    callbacks.enqueue({{}, 1});
    CHECK(callbacks.assign(5, 9));
    callbacks.advance(4, 8);
    CHECK_FALSE(callbacks.any_done());
    CHECK(callbacks.ready(expedited ? 4 : 5, expedited ? 9 : 8));
    callbacks.advance(expedited ? 4 : 5, expedited ? 9 : 8);
    CHECK(callbacks.done_count() == 1);
  }
}

TEST_CASE("what is new waits to be assigned, and at most two grace periods have callbacks at a time") {
  RcuCallbacks callbacks;
  CHECK_FALSE(callbacks.assign(1, 1));  // nothing to assign
  for (const std::uint64_t grace_period : {3, 4, 5}) {
    callbacks.enqueue({{}, 1});
    CHECK(callbacks.assign(grace_period, 100) == (grace_period < 5));
  }
  CHECK(callbacks.has_new());  // no place for a third
  callbacks.advance(4, kNone);
  CHECK(callbacks.done_count() == 2);
  CHECK(callbacks.assign(5, 100));
  callbacks.advance(5, kNone);
  CHECK(callbacks.done_count() == 3);
}

TEST_CASE("a batch of frees is taken in parts, its function first and once") {
  RcuCallbacks callbacks;
  int called = 0;
  callbacks.enqueue({[&] { ++called; }, 25});
  callbacks.assign(1, 1);
  callbacks.advance(1, kNone);
  std::size_t taken = 0;
  while (callbacks.any_done()) {
    const RcuCallbacks::Batch batch = callbacks.take_done(10);
    CHECK(batch.count <= 10);
    taken += batch.count;
    if (batch.callback) batch.callback();
  }
  CHECK(taken == 25);
  CHECK(called == 1);
  CHECK(callbacks.empty());
}

TEST_CASE("an expedited grace period frees what was assigned before it began") {
  on_machine([](Machine& machine, World& world) {
    Completion done;
    const TimeNs begin = machine.now_ns();
    world.rcu.call([&] { done.complete(); });
    machine.sleep_ns(kMs + kMs / 2);  // a tick has assigned it
    world.rcu.synchronize_expedited();
    done.wait();
    CHECK(machine.now_ns() - begin == 2 * kMs);  // the next tick invokes it, three before the normal end
  });
}

TEST_CASE("a tick out of the idle task is no quiescent state: the grace period waits for the scan") {
  on_machine([](Machine& machine, World& world) {
    // Callbacks keep these CPUs ticking through the whole grace period.
    for (int cpu = 1; cpu < 4; ++cpu) machine.join(machine.spawn({.cpu = cpu}, [&] { world.rcu.call([] {}); }));
    const TimeNs begin = machine.now_ns();
    world.rcu.synchronize();
    CHECK(machine.now_ns() - begin >= 4 * kMs);
  });
}
