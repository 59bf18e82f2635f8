// The rt_mutex against schedules computed by hand, closed forms, and a reference queue.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "platform/sim/platform.h"

using namespace mqlab;
using namespace mqlab::sim;
using platform::Cost;

namespace {

MachineConfig config(unsigned cpus) {
  MachineConfig c;
  c.cpus = cpus;
  return c;
}

void set(MachineConfig& c, Cost cost, std::uint64_t ns) { c.costs[platform::index(cost)] = ns; }

/// A machine on which every step of a hand-over costs something different.
MachineConfig costly(unsigned cpus) {
  MachineConfig c = config(cpus);
  set(c, Cost::kLockUncontended, 20);
  set(c, Cost::kRtMutexSlowLock, 300);
  set(c, Cost::kRtMutexSlowUnlock, 200);
  set(c, Cost::kWakeUp, 1000);
  set(c, Cost::kContextSwitch, 1500);
  set(c, Cost::kSpinHandover, 50);
  return c;
}

void join_all(Machine& machine, const std::vector<Task*>& tasks) {
  for (Task* task : tasks) machine.join(task);
}

}  // namespace

TEST_CASE("an urgent task preempts another on its CPU at the moment an interrupt wakes it") {
  Machine machine(config(1));
  TimeNs ran_ns = 0;
  machine.run([&] {
    Task* urgent = machine.spawn({.cpu = 0, .priority = 1}, [&] {
      machine.sleep_ns(100'000);
      ran_ns = machine.now_ns();
    });
    Task* busy = machine.spawn({.cpu = 0}, [&] { machine.advance(1'000'000); });
    join_all(machine, {urgent, busy});
  });
  CHECK(ran_ns >= 100'000);
  CHECK(ran_ns <= 100'010);
}

TEST_CASE("priority inheritance keeps a middle task from delaying an urgent one: schedule computed by hand") {
  // One CPU. low takes the lock at 0 and needs 10 us in it; high (waking at 3 us) waits for the lock; middle
  // (waking at 4 us) computes for 50 us. With inheritance low finishes at 10 us, high at 12 us, then middle
  // at about 62 us; without it, middle would run from 4 us to 54 us first.
  Machine machine(config(1));
  std::string order;
  TimeNs high_done_ns = 0;
  int boosted = -1;
  int after = -1;
  machine.run([&] {
    RtMutex lock;
    Task* low = machine.spawn({.name = "low", .cpu = 0, .priority = fifo_priority(1)}, [&] {
      lock.lock();
      machine.advance(9'000);
      boosted = machine.current_task()->priority();
      machine.advance(1'000);
      lock.unlock();
      after = machine.current_task()->priority();
      machine.advance(1);
      order += 'l';
    });
    Task* high = machine.spawn({.name = "high", .cpu = 0, .priority = fifo_priority(90)}, [&] {
      machine.sleep_ns(3'000);
      lock.lock();
      machine.advance(2'000);
      lock.unlock();
      high_done_ns = machine.now_ns();
      order += 'h';
    });
    Task* middle = machine.spawn({.name = "middle", .cpu = 0, .priority = fifo_priority(50)}, [&] {
      machine.sleep_ns(4'000);
      machine.advance(50'000);
      order += 'm';
    });
    join_all(machine, {low, high, middle});
  });
  CHECK(order == "hml");
  CHECK(boosted == fifo_priority(90));
  CHECK(after == fifo_priority(1));
  CHECK(high_done_ns >= 12'000);
  CHECK(high_done_ns <= 12'100);
}

TEST_CASE("inheritance goes along a chain of locks and back again") {
  Machine machine(config(4));
  std::vector<int> seen;
  machine.run([&] {
    RtMutex first;
    RtMutex second;
    Task* owner = machine.spawn({.name = "owner", .cpu = 0, .priority = fifo_priority(1)}, [&] {
      first.lock();
      machine.advance(1'000);
      seen.push_back(machine.current_task()->priority());  // nobody urgent waits yet
      machine.advance(9'000);
      seen.push_back(machine.current_task()->priority());  // lent by `urgent`, through `between`
      first.unlock();
      seen.push_back(machine.current_task()->priority());
    });
    Task* between = machine.spawn({.name = "between", .cpu = 1, .priority = fifo_priority(2)}, [&] {
      machine.advance(100);
      second.lock();
      machine.advance(1'500);
      first.lock();
      seen.push_back(machine.current_task()->priority());
      first.unlock();
      second.unlock();
      seen.push_back(machine.current_task()->priority());
    });
    Task* urgent = machine.spawn({.name = "urgent", .cpu = 2, .priority = fifo_priority(80)}, [&] {
      machine.advance(5'000);
      second.lock();
      second.unlock();
    });
    join_all(machine, {owner, between, urgent});
  });
  CHECK(seen ==
        std::vector<int>{fifo_priority(1), fifo_priority(80), fifo_priority(1), fifo_priority(80), fifo_priority(2)});
}

TEST_CASE("the lock goes to the most urgent waiter, first come first among equals") {
  Machine machine(costly(8));
  std::string order;
  machine.run([&] {
    RtMutex lock;
    std::vector<Task*> tasks;
    const auto contender = [&](int cpu, char name, int priority, TimeNs arrives_ns) {
      tasks.push_back(machine.spawn({.cpu = cpu, .priority = priority}, [&machine, &lock, &order, name, arrives_ns] {
        machine.sleep_ns(arrives_ns);
        lock.lock();
        order += name;
        machine.advance(30'000);
        lock.unlock();
      }));
    };
    contender(0, 'o', fifo_priority(50), 100);  // holds it while the others queue
    contender(1, 'n', 0, 5'000);                // not real-time
    contender(2, 'm', 1, 6'000);                // nice does not count among those
    contender(3, 'a', fifo_priority(50), 7'000);
    contender(4, 'b', fifo_priority(50), 8'000);
    contender(5, 'x', fifo_priority(60), 9'000);
    join_all(machine, tasks);
  });
  CHECK(order == "oxabnm");
}

TEST_CASE(
    "between release and the woken waiter's turn, an equal real-time task may not steal, an ordinary one "
    "may") {
  for (const auto& [priority, expected] : {std::pair{fifo_priority(50), std::string("owl")}, {0, std::string("olw")}}) {
    Machine machine(costly(3));
    std::string order;
    machine.run([&] {
      RtMutex lock(false);
      TimeNs released_ns = 0;
      Task* owner = machine.spawn({.cpu = 0, .priority = priority}, [&] {
        lock.lock();
        order += 'o';
        machine.advance(20'000);
        lock.unlock();
      });
      Task* waiter = machine.spawn({.cpu = 1, .priority = priority}, [&] {
        machine.advance(2'000);
        lock.lock();
        order += 'w';
        lock.unlock();
      });
      Task* late = machine.spawn({.cpu = 2, .priority = priority}, [&] {
        // Arrives while the owner is waking the waiter, which then still has a context switch before it.
        while (lock.owner() != nullptr || released_ns == 0) {
          released_ns = lock.owner() != nullptr ? 1 : 0;
          machine.advance(100);
          if (lock.owner() == nullptr && released_ns == 1) break;
        }
        lock.lock();
        order += 'l';
        lock.unlock();
      });
      join_all(machine, {owner, waiter, late});
    });
    CHECK(order == expected);
  }
}

TEST_CASE(
    "a single waiter spins on a running owner and takes the lock without a wake-up; it counts as D "
    "meanwhile") {
  Machine machine(costly(3));
  bool in_d = false;
  TimeNs released_ns = 0;
  TimeNs got_ns = 0;
  LockStats stats;
  machine.run([&] {
    RtMutex lock;
    Task* owner = machine.spawn({.cpu = 0, .priority = fifo_priority(50)}, [&] {
      lock.lock();
      machine.advance(30'000);
      released_ns = machine.now_ns();
      lock.unlock();
    });
    Task* waiter = machine.spawn({.cpu = 1, .priority = fifo_priority(50)}, [&] {
      machine.advance(5'000);
      lock.lock();
      got_ns = machine.now_ns();
      lock.unlock();
    });
    machine.sleep_ns(15'000);
    in_d = waiter->waits_for_rt_mutex() && waiter->state() == Task::State::kRunning;
    join_all(machine, {owner, waiter});
    CHECK_FALSE(waiter->waits_for_rt_mutex());
    stats = lock.stats();
  });
  CHECK(in_d);
  CHECK(stats.sleeps == 0);
  CHECK(stats.spins == 1);
  CHECK(stats.spun_ns > 20'000);
  CHECK(got_ns - released_ns < 1'000);  // no wake-up (1000 ns) and no context switch (1500 ns)
}

TEST_CASE("a spinning waiter goes to sleep when the owner leaves its CPU") {
  Machine machine(costly(2));
  LockStats stats;
  machine.run([&] {
    RtMutex lock;
    Task* owner = machine.spawn({.cpu = 0, .priority = fifo_priority(50)}, [&] {
      lock.lock();
      machine.advance(10'000);
      machine.sleep_ns(1'000'000);
      lock.unlock();
    });
    Task* waiter = machine.spawn({.cpu = 1, .priority = fifo_priority(50)}, [&] {
      machine.advance(5'000);
      lock.lock();
      lock.unlock();
    });
    join_all(machine, {owner, waiter});
    stats = lock.stats();
  });
  CHECK(stats.sleeps == 1);
  CHECK(stats.spun_ns < 10'000);
}

TEST_CASE("saturated by sleeping waiters, the lock's throughput is 1 / (hold + hand-over)") {
  constexpr TimeNs kHoldNs = 700;
  constexpr int kTurns = 400;
  constexpr int kTasks = 4;
  MachineConfig c = costly(kTasks);
  Machine machine(c);
  TimeNs elapsed_ns = 0;
  machine.run([&] {
    RtMutex lock(false);
    std::vector<Task*> tasks;
    const TimeNs start_ns = machine.now_ns();
    for (int cpu = 0; cpu < kTasks; ++cpu)
      tasks.push_back(machine.spawn({.cpu = cpu, .priority = fifo_priority(50)}, [&] {
        for (int turn = 0; turn < kTurns; ++turn) {
          lock.lock();
          machine.advance(kHoldNs);
          lock.unlock();
        }
      }));
    join_all(machine, tasks);
    elapsed_ns = machine.now_ns() - start_ns;
  });
  // Release: wait_lock, slow unlock, wake-up. Then the waiter's context switch and its wait_lock. Nothing
  // overlaps, for equal real-time tasks may not steal; the release of the wait_lock may have to wait for a
  // queueing task's slow path.
  const double alone_ns = kHoldNs + 20 + 200 + 1000 + 1500 + 20;
  const double measured_ns = static_cast<double>(elapsed_ns) / (kTurns * kTasks);
  CHECK(measured_ns >= alone_ns * 0.999);
  CHECK(measured_ns <= alone_ns + 300 + 20 + 50);
}

TEST_CASE("M/D/1: the mean wait for a spinlock with Poisson arrivals") {
  // Many CPUs, each arriving at random and seldom, are close to a Poisson stream. Mean wait: rho * D / (2 *
  // (1 - rho)).
  constexpr TimeNs kHoldNs = 1000;
  constexpr unsigned kCpus = 64;
  constexpr TimeNs kEndNs = 50'000'000;
  for (const double rho : {0.3, 0.6}) {
    MachineConfig c = config(kCpus);
    c.seed = 5;
    Machine machine(c);
    LockStats stats;
    machine.run([&] {
      Spinlock lock;
      std::vector<Task*> tasks;
      for (unsigned cpu = 0; cpu < kCpus; ++cpu)
        tasks.push_back(machine.spawn({.cpu = static_cast<int>(cpu)}, [&] {
          const double mean_ns = kHoldNs * kCpus / rho;
          for (;;) {
            machine.sleep_ns(static_cast<TimeNs>(-mean_ns * std::log(1.0 - machine.random().unit())));
            if (machine.now_ns() > kEndNs) return;
            lock.lock();
            machine.advance(kHoldNs);
            lock.unlock();
          }
        }));
      join_all(machine, tasks);
      stats = lock.stats();
    });
    const double elapsed_ns = kEndNs;
    const double busy = static_cast<double>(stats.acquired) * kHoldNs / elapsed_ns;
    const double expected_ns = busy * kHoldNs / (2 * (1 - busy));
    const double mean_wait_ns = static_cast<double>(stats.waited_ns) / static_cast<double>(stats.acquired);
    INFO("rho ", rho, " busy ", busy, " expected ", expected_ns, " measured ", mean_wait_ns);
    CHECK(std::abs(mean_wait_ns / expected_ns - 1.0) < 0.1);
  }
}

TEST_CASE("no wake-up is lost and nobody is inside with another, whatever the priorities and times") {
  const bool held = rc::check("rt_mutex", [](std::uint64_t seed, bool top_waiter_spins) {
    MachineConfig c = costly(4);
    c.seed = seed;
    Machine machine(c);
    int inside = 0;
    int most = 0;
    int turns = 0;
    int left_boosted = 0;
    machine.run([&] {
      RtMutex outer(top_waiter_spins);
      RtMutex inner(top_waiter_spins);
      std::vector<Task*> tasks;
      for (int i = 0; i < 10; ++i) {
        const int priority =
            machine.random().below(3) == 0 ? 0 : fifo_priority(static_cast<int>(machine.random().below(4)));
        const int cpu = static_cast<int>(machine.random().below(5)) - 1;
        tasks.push_back(machine.spawn({.cpu = cpu, .priority = priority}, [&] {
          for (int turn = 0; turn < 12; ++turn) {
            const bool nested = machine.random().below(2) == 0;
            if (nested) outer.lock();
            inner.lock();
            most = std::max(most, ++inside);
            machine.advance(machine.random().below(4'000));
            if (machine.random().below(6) == 0) machine.sleep_ns(machine.random().below(6'000));
            --inside;
            inner.unlock();
            if (nested) outer.unlock();
            machine.advance(machine.random().below(6'000));
            if (machine.current_task()->priority() != machine.current_task()->own_priority()) ++left_boosted;
            ++turns;
          }
        }));
      }
      join_all(machine, tasks);
      RC_ASSERT(outer.owner() == nullptr);
      RC_ASSERT(inner.owner() == nullptr);
      RC_ASSERT(inner.waiters() == 0U);
    });
    RC_ASSERT(most == 1);
    RC_ASSERT(turns == 120);
    RC_ASSERT(left_boosted == 0);
  });
  CHECK(held);
}

TEST_CASE("locking an rt_mutex twice is reported") {
  Machine machine(config(1));
  CHECK_THROWS_AS(machine.run([&] {
    RtMutex lock;
    lock.lock();
    lock.lock();
  }),
                  Error);
}
