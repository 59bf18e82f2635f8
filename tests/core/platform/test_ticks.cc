// When ticks come, who handles timers, and what CPUs that share a lane see of each other's ticks.
#include <doctest/doctest.h>

#include <functional>
#include <set>
#include <vector>

#include "platform/sim/machine.h"
#include "platform/sim/platform.h"

using namespace mqlab;
using namespace mqlab::sim;

namespace {

constexpr TimeNs kTick = 1'000'000;

MachineConfig config(unsigned cpus, unsigned lanes, std::uint64_t seed = 1) {
  MachineConfig c;
  c.cpus = cpus;
  c.lanes = lanes;
  c.seed = seed;
  c.costs.fill(100);
  return c;
}

/// How many ticks a sleep of one jiffy on CPU 1 takes while CPU 0 advances jiffies.
TimeNs sleep_beside_a_busy_cpu(unsigned lanes, std::uint64_t seed) {
  Machine machine(config(2, lanes, seed));
  TimeNs took = 0;
  machine.run([&] {
    Task* const busy = machine.spawn({.cpu = 0}, [&] { machine.sleep_ns(20 * kTick); });
    Task* const sleeper = machine.spawn({.cpu = 1}, [&] {
      machine.hold_tick(0, true);
      machine.hold_tick(1, true);
      machine.sleep_ns(3 * kTick + kTick / 2);  // CPU 0 has the duty by now
      const TimeNs begin = machine.now_ns();
      machine.sleep_jiffies(1);
      took = machine.now_ns() - begin;
    });
    machine.join(sleeper);
    machine.join(busy);
  });
  return took;
}

}  // namespace

TEST_CASE("an idle CPU ticks until a tick has found it idle, and longer for a timer that is due at the next") {
  Machine machine(config(2, 2));
  machine.run([&] {
    machine.join(machine.spawn({.cpu = 1}, [] {}));
    machine.sleep_ns(kTick / 2);
    CHECK(machine.ticks(1));
    machine.sleep_ns(2 * kTick);
    CHECK_FALSE(machine.ticks(1));
    machine.hold_tick(1, true);
    CHECK(machine.ticks(1));
  });
}

TEST_CASE("a CPU that ticks before jiffies is advanced handles its timer a jiffy later") {
  for (const unsigned lanes : {1U, 2U}) {
    std::set<TimeNs> jiffies;
    for (std::uint64_t seed = 1; seed <= 30; ++seed)
      jiffies.insert((sleep_beside_a_busy_cpu(lanes, seed) + kTick - 1) / kTick);
    CHECK(std::vector<TimeNs>(jiffies.begin(), jiffies.end()) == std::vector<TimeNs>{2, 3});
  }
}

TEST_CASE("a CPU inside an interrupt is not quiescent") {
  Machine machine(config(2, 2));
  bool inside = true;
  machine.run([&] {
    machine.sleep_ns(100);
    CHECK(machine.cpu_quiescent(1));
    machine.interrupt(1, [] {});
    inside = machine.cpu_quiescent(1);
    machine.sleep_ns(10'000);
    CHECK(machine.cpu_quiescent(1));
  });
  CHECK_FALSE(inside);
}

TEST_CASE("with a reader at the head every queued reader is let in, past the writers between them") {
  Machine machine(config(6, 6));
  std::vector<char> order;
  machine.run([&] {
    RwSemaphore sem;
    sem.down_write();
    std::vector<Task*> tasks;
    for (const char kind : {'r', 'w', 'r', 'w', 'r'}) {
      tasks.push_back(machine.spawn({}, [&, kind] {
        kind == 'r' ? sem.down_read() : sem.down_write();
        order.push_back(kind);
        machine.sleep_ns(100'000);
        kind == 'r' ? sem.up_read() : sem.up_write();
      }));
      machine.sleep_ns(10'000);
    }
    sem.up_write();
    for (Task* task : tasks) machine.join(task);
  });
  CHECK(order == std::vector<char>{'r', 'r', 'r', 'w', 'w'});
}
