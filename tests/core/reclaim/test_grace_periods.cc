// The waits that the kernel's grace-period machines give, as documented in reclaim/rcu.h and reclaim/srcu.h.
#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <vector>

#include "platform/sim/platform.h"
#include "reclaim/percpu_ref.h"
#include "reclaim/rcu.h"
#include "reclaim/srcu.h"

using namespace mqlab;
using namespace mqlab::sim;
using reclaim::PercpuRef;
using reclaim::Rcu;
using reclaim::Srcu;
using Queue = platform::WorkQueue<Platform>;

namespace {

constexpr TimeNs kMs = 1'000'000;

struct World {
  Queue queue{"rcu_gp"};
  Rcu<Platform> rcu{queue};
  Srcu<Platform> srcu{queue};
};

/// Runs `body` on a machine whose costs are nil, starting `phase_ns` into a tick: every wait is then a whole number of
/// ticks, less the phase.
void on_machine(unsigned hz, TimeNs phase_ns, const std::function<void(Machine&, World&)>& body) {
  MachineConfig config;
  config.cpus = 4;
  config.hz = hz;
  config.tick_phase_ns = phase_ns;
  Machine machine(config);
  std::unique_ptr<World> world;  // outlives the tasks, which are ended when run() returns
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

}  // namespace

TEST_CASE("srcu_barrier after call_srcu waits 4 jiffies less the phase, at any HZ") {
  for (const unsigned hz : {100U, 250U, 300U, 1000U}) {
    const TimeNs tick = 1'000'000'000 / hz;
    for (const TimeNs phase : {TimeNs{0}, tick / 4, tick / 2}) {
      on_machine(hz, phase, [&](Machine& machine, World& world) {
        auto& srcu = world.srcu;
        const TimeNs waited = elapsed(machine, [&] {
          srcu.call([] {});
          srcu.barrier();
        });
        CHECK(waited == 4 * tick - phase);
      });
    }
  }
}

TEST_CASE("srcu_barrier without callbacks does not wait") {
  on_machine(1000, 0, [](Machine& machine, World& world) {
    auto& srcu = world.srcu;
    CHECK(elapsed(machine, [&] { srcu.barrier(); }) == 0);
  });
}

TEST_CASE("synchronize_srcu of an idle instance is expedited, right after a grace period it is not") {
  on_machine(1000, 0, [](Machine& machine, World& world) {
    auto& srcu = world.srcu;
    CHECK(elapsed(machine, [&] { srcu.synchronize(); }) < kMs);
    CHECK(elapsed(machine, [&] { srcu.synchronize(); }) >= 3 * kMs);
  });
}

TEST_CASE("concurrent waiters share an SRCU grace period") {
  on_machine(1000, 0, [](Machine& machine, World& world) {
    auto& srcu = world.srcu;
    const TimeNs waited = elapsed(machine, [&] {
      std::vector<Task*> tasks;
      for (int i = 0; i < 16; ++i)
        tasks.push_back(machine.spawn({}, [&] {
          srcu.call([] {});
          srcu.barrier();
        }));
      for (Task* task : tasks) machine.join(task);
    });
    CHECK(waited <= 8 * kMs);
    CHECK(srcu.grace_periods() <= 3);
  });
}

TEST_CASE("an SRCU grace period outlasts every reader that was inside when it began") {
  for (const TimeNs hold : {kMs / 2, 3 * kMs, 20 * kMs, 300 * kMs}) {
    on_machine(1000, kMs / 3, [&](Machine& machine, World& world) {
      auto& srcu = world.srcu;
      TimeNs left_ns = 0;
      machine.spawn({.cpu = 1}, [&] {
        const unsigned index = srcu.read_lock();
        machine.sleep_ns(hold);
        left_ns = machine.now_ns();
        srcu.read_unlock(index);
      });
      machine.sleep_ns(1000);
      srcu.call([] {});
      srcu.barrier();
      CHECK(left_ns > 0);
      CHECK(machine.now_ns() >= left_ns);
      CHECK(machine.now_ns() <= left_ns + 13 * kMs);  // it looks again after at most 10 jiffies
    });
  }
}

TEST_CASE("synchronize_rcu from idle takes the first scan's delay and one tick of rounding") {
  for (const auto& [hz, jiffies] :
       {std::pair{1000U, 4U}, std::pair{500U, 3U}, std::pair{300U, 3U}, std::pair{250U, 2U}}) {
    on_machine(hz, 0, [hz = hz, jiffies = jiffies](Machine& machine, World& world) {
      auto& rcu = world.rcu;
      CHECK(elapsed(machine, [&] { rcu.synchronize(); }) == jiffies * (1'000'000'000ULL / hz));
    });
  }
}

TEST_CASE("a callback of call_rcu waits for a tick, a grace period and another tick") {
  on_machine(1000, kMs / 2, [](Machine& machine, World& world) {
    auto& rcu = world.rcu;
    Completion done;
    const TimeNs waited = elapsed(machine, [&] {
      rcu.call([&] { done.complete(); });
      done.wait();
    });
    CHECK(waited == 5 * kMs + kMs / 2);  // half a tick to the tick that asks, 4 of grace period, 1 until it is noticed
  });
}

TEST_CASE("what comes during an RCU grace period needs the next one") {
  on_machine(1000, 0, [](Machine& machine, World& world) {
    auto& rcu = world.rcu;
    machine.spawn({.cpu = 1}, [&] { rcu.synchronize(); });
    machine.sleep_ns(kMs + kMs / 2);
    CHECK(elapsed(machine, [&] { rcu.synchronize(); }) == 8 * kMs - (kMs + kMs / 2));
  });
}

TEST_CASE("64 concurrent synchronize_rcu share two grace periods at most") {
  on_machine(1000, 0, [](Machine& machine, World& world) {
    auto& rcu = world.rcu;
    std::vector<Task*> tasks;
    for (int i = 0; i < 64; ++i) tasks.push_back(machine.spawn({}, [&] { rcu.synchronize(); }));
    for (Task* task : tasks) machine.join(task);
    CHECK(machine.now_ns() <= 8 * kMs);
    CHECK(rcu.grace_periods() <= 2);
  });
}

TEST_CASE("an RCU grace period waits for a reader that keeps its CPU") {
  on_machine(1000, 0, [](Machine& machine, World& world) {
    auto& rcu = world.rcu;
    TimeNs left_ns = 0;
    machine.spawn({.cpu = 2}, [&] {
      rcu.read_lock();
      machine.advance(30 * kMs);
      left_ns = machine.now_ns();
      rcu.read_unlock();
    });
    machine.sleep_ns(10);
    rcu.synchronize();
    CHECK(left_ns > 0);
    CHECK(machine.now_ns() >= left_ns);
  });
}

TEST_CASE("rcu_barrier waits for callbacks of all CPUs") {
  on_machine(1000, 0, [](Machine& machine, World& world) {
    auto& rcu = world.rcu;
    int ran = 0;
    std::vector<Task*> tasks;
    for (int cpu = 0; cpu < 4; ++cpu) tasks.push_back(machine.spawn({.cpu = cpu}, [&] { rcu.call([&] { ++ran; }); }));
    for (Task* task : tasks) machine.join(task);
    rcu.barrier();
    CHECK(ran == 4);
  });
}

TEST_CASE("a killed per-CPU reference is released after a grace period, an atomic one at once") {
  on_machine(1000, 0, [](Machine& machine, World& world) {
    auto& rcu = world.rcu;
    for (const bool percpu : {true, false}) {
      WaitQueue zero;
      PercpuRef<Platform> ref(rcu, [&] { zero.wake_all(); }, percpu);
      const TimeNs waited = elapsed(machine, [&] {
        ref.kill();
        zero.wait([&] { return ref.is_zero(); });
      });
      CHECK((waited >= 4 * kMs) == percpu);
      CHECK((waited == 0) != percpu);
      CHECK_FALSE(ref.tryget_live());
    }
  });
}

TEST_CASE("a killed reference is not zero while somebody holds it, and can be resurrected") {
  on_machine(1000, 0, [](Machine& machine, World& world) {
    auto& rcu = world.rcu;
    WaitQueue zero;
    int released = 0;
    PercpuRef<Platform> ref(
        rcu,
        [&] {
          ++released;
          zero.wake_all();
        },
        true);
    CHECK(ref.tryget_live());
    ref.kill();
    machine.sleep_ns(20 * kMs);
    CHECK_FALSE(ref.is_zero());
    CHECK(released == 0);
    ref.put();
    CHECK(ref.is_zero());
    CHECK(released == 1);
    ref.resurrect();
    CHECK(ref.tryget_live());
    ref.put();
    CHECK(released == 1);
  });
}
