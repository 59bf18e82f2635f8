#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "platform/sim/platform.h"

using namespace mqlab;
using namespace mqlab::sim;

namespace {

MachineConfig config(unsigned cpus, unsigned lanes = 0) {
  MachineConfig c;
  c.cpus = cpus;
  c.lanes = lanes;
  return c;
}

}  // namespace

TEST_CASE("CPUs of their own lanes work at once, CPUs of one lane one after another") {
  for (const auto& [lanes, expected_ns] : {std::pair{0U, 1000U}, std::pair{1U, 4000U}}) {
    TimeNs end_ns = 0;
    Machine machine(config(4, lanes));
    machine.run([&] {
      std::vector<Task*> tasks;
      for (int i = 0; i < 4; ++i) tasks.push_back(machine.spawn({.cpu = i}, [&] { machine.advance(1000); }));
      for (Task* task : tasks) machine.join(task);
      end_ns = machine.now_ns();
    });
    CHECK(end_ns == expected_ns);
  }
}

TEST_CASE("effects happen in the order of virtual time, whatever the order of spawning") {
  std::string order;
  Machine machine(config(3));
  machine.run([&] {
    const auto work = [&](TimeNs ns, char mark) {
      return [&machine, &order, ns, mark] {
        machine.advance(ns);
        order += mark;
      };
    };
    machine.spawn({.cpu = 0}, work(300, 'c'));
    machine.spawn({.cpu = 1}, work(100, 'a'));
    machine.spawn({.cpu = 2}, work(200, 'b'));
  });
  CHECK(order == "abc");
}

TEST_CASE("a jiffy timer fires at the tick after its delay has passed") {
  MachineConfig c = config(1);
  c.tick_phase_ns = 250'000;
  Machine machine(c);
  TimeNs woke_ns = 0;
  machine.run([&] {
    machine.sleep_jiffies(1);
    woke_ns = machine.now_ns();
  });
  CHECK(woke_ns == 1'750'000);  // phase 0.25 ms: ticks at 0.75 and 1.75 ms
}

TEST_CASE("tasks that share a CPU take turns by slices, an urgent one goes first") {
  std::string order;
  MachineConfig c = config(1);
  c.slice_ns = 1000;
  Machine machine(c);
  machine.run([&] {
    const auto work = [&](char mark) {
      return [&machine, &order, mark] {
        for (int i = 0; i < 3; ++i) {
          machine.advance(1000);
          order += mark;
        }
      };
    };
    machine.spawn({.name = "a"}, work('a'));
    machine.spawn({.name = "b"}, work('b'));
    machine.spawn({.name = "urgent", .priority = 1}, work('u'));
  });
  CHECK(order == "uuuababab");
}

TEST_CASE("a mutex is held by one, waiters sleep, and a waiter that lost once is handed the lock") {
  Machine machine(config(4));
  int inside = 0;
  int most = 0;
  std::vector<int> turns(3, 0);
  machine.run([&] {
    Mutex mutex;
    std::vector<Task*> tasks;
    for (int i = 0; i < 3; ++i)
      tasks.push_back(machine.spawn({}, [&, i] {
        for (int turn = 0; turn < 5; ++turn) {
          mutex.lock();
          most = std::max(most, ++inside);
          machine.sleep_ns(500);
          --inside;
          mutex.unlock();
          ++turns[static_cast<std::size_t>(i)];
        }
      }));
    for (Task* task : tasks) machine.join(task);
  });
  CHECK(most == 1);
  CHECK(turns == std::vector<int>{5, 5, 5});
}

TEST_CASE("a spinning waiter takes as long as the owner holds the lock and keeps its CPU") {
  Machine machine(config(2));
  TimeNs got_ns = 0;
  TimeNs other_ns = 0;
  machine.run([&] {
    Spinlock lock;
    Task* owner = machine.spawn({.cpu = 0}, [&] {
      lock.lock();
      machine.advance(10'000);
      lock.unlock();
    });
    Task* waiter = machine.spawn({.cpu = 1}, [&] {
      machine.advance(10);
      lock.lock();
      got_ns = machine.now_ns();
      lock.unlock();
    });
    Task* other = machine.spawn({.cpu = 1}, [&] { other_ns = machine.now_ns(); });
    for (Task* task : {owner, waiter, other}) machine.join(task);
  });
  CHECK(got_ns == 10'000);
  CHECK(other_ns >= 10'000);
}

TEST_CASE("a queued writer waits for the readers inside and keeps later readers out") {
  Machine machine(config(4));
  std::string order;
  machine.run([&] {
    RwSemaphore sem;
    Task* first = machine.spawn({.cpu = 0}, [&] {
      sem.down_read();
      machine.sleep_ns(1000);
      order += 'r';
      sem.up_read();
    });
    Task* writer = machine.spawn({.cpu = 1}, [&] {
      machine.advance(100);
      sem.down_write();
      order += 'W';
      machine.sleep_ns(1000);
      sem.up_write();
    });
    Task* late = machine.spawn({.cpu = 2}, [&] {
      machine.advance(200);
      sem.down_read();
      order += 'l';
      sem.up_read();
    });
    for (Task* task : {first, writer, late}) machine.join(task);
  });
  CHECK(order == "rWl");
}

TEST_CASE("what a task throws ends the run, and its message arrives") {
  Machine machine(config(2));
  CHECK_THROWS_WITH_AS(machine.run([&] {
    machine.spawn({}, [&] {
      machine.advance(100);
      throw Error(ErrorKind::kUsage, "no such device");
    });
    machine.sleep_ns(1'000'000);
  }),
                       "no such device", Error);
}

TEST_CASE("a deadlock is reported with the tasks and what they wait for") {
  Machine machine(config(2));
  std::string message;
  try {
    machine.run([&] {
      Mutex a("mutex a");
      Mutex b("mutex b");
      Task* one = machine.spawn({.name = "one", .cpu = 0}, [&] {
        a.lock();
        machine.sleep_ns(100);
        b.lock();
      });
      Task* two = machine.spawn({.name = "two", .cpu = 1}, [&] {
        b.lock();
        machine.sleep_ns(100);
        a.lock();
      });
      machine.join(one);
      machine.join(two);
    });
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kViolation);
    message = error.what();
  }
  CHECK(message.find("one waits for mutex b") != std::string::npos);
  CHECK(message.find("two waits for mutex a") != std::string::npos);
}

TEST_CASE("using a freed object is reported with its name and the seed") {
  MachineConfig c = config(1);
  c.seed = 77;
  Machine machine(c);
  std::string message;
  try {
    machine.run([&] {
      auto owner = Tracked<int>::make("request map", 5);
      const auto reader = owner;
      CHECK(*reader == 5);
      owner.free();
      static_cast<void>(*reader);
    });
  } catch (const Error& error) {
    message = error.what();
  }
  CHECK(message.find("use after free of request map") != std::string::npos);
  CHECK(message.find("seed 77") != std::string::npos);
}

TEST_CASE("the same seed gives the same schedule, another seed another") {
  const auto trace = [](std::uint64_t seed) {
    MachineConfig c = config(4);
    c.seed = seed;
    Machine machine(c);
    std::vector<TimeNs> times;
    machine.run([&] {
      Mutex mutex;
      std::vector<Task*> tasks;
      for (int i = 0; i < 8; ++i)
        tasks.push_back(machine.spawn({}, [&] {
          for (int turn = 0; turn < 20; ++turn) {
            machine.advance(Platform::random_below(1000));
            mutex.lock();
            times.push_back(machine.now_ns());
            machine.sleep_ns(Platform::random_below(500));
            mutex.unlock();
          }
        }));
      for (Task* task : tasks) machine.join(task);
    });
    return times;
  };
  CHECK(trace(3) == trace(3));
  CHECK(trace(3) != trace(4));
}

TEST_CASE("a timer that has expired but is not handled yet can still be cancelled, or go away") {
  Machine machine(config(1));
  int fired = 0;
  machine.run([&] {
    auto timer = std::make_unique<Timer>(machine, [&] { ++fired; });
    timer->arm_at(machine.now_ns() + 100);
    machine.interrupt(0, [&] {
      machine.advance(1000);  // the timer's time passes while this interrupt keeps the CPU
      timer.reset();
    });
    machine.sleep_ns(5000);
  });
  CHECK(fired == 0);
}
