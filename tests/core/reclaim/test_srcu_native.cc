// SRCU on real threads: readers run while an updater replaces and frees what they read. The sanitizers watch.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "platform/native/platform.h"
#include "reclaim/srcu.h"

using namespace mqlab;
using native::Platform;
using reclaim::Srcu;

namespace {

struct Value {
  explicit Value(int number) : first(number), second(number) {}
  ~Value() { first = second = -1; }
  int first;
  int second;
};

struct World {
  platform::WorkQueue<Platform> queue{"rcu_gp"};
  Srcu<Platform> srcu{queue};
};

}  // namespace

TEST_CASE("a reader never meets freed memory, with synchronize and with call") {
  for (const bool deferred : {false, true}) {
    World world;
    std::atomic<Value*> shared{new Value(0)};
    std::atomic<bool> stop{false};
    std::atomic<int> torn{0};
    std::vector<std::thread> readers;
    for (int i = 0; i < 3; ++i)
      readers.emplace_back([&] {
        while (!stop.load()) {
          const unsigned index = world.srcu.read_lock();
          const Value* const value = shared.load(std::memory_order_acquire);
          if (value->first != value->second || value->first < 0) torn.fetch_add(1);
          world.srcu.read_unlock(index);
        }
      });
    std::atomic<int> freed{0};
    constexpr int kUpdates = 20;
    for (int i = 1; i <= kUpdates; ++i) {
      Value* const old = shared.exchange(new Value(i), std::memory_order_acq_rel);
      if (deferred) {
        world.srcu.call([old, &freed] {
          delete old;
          freed.fetch_add(1);
        });
      } else {
        world.srcu.synchronize();
        delete old;
        freed.fetch_add(1);
      }
    }
    world.srcu.barrier();
    CHECK(freed.load() == kUpdates);
    stop.store(true);
    for (std::thread& reader : readers) reader.join();
    CHECK(torn.load() == 0);
    world.srcu.cleanup();
    delete shared.load();
  }
}

TEST_CASE("a grace period waits for the reader that was inside when it was asked for") {
  World world;
  std::atomic<int> step{0};
  std::thread reader([&] {
    const unsigned index = world.srcu.read_lock();
    step.store(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    step.store(2);
    world.srcu.read_unlock(index);
  });
  while (step.load() == 0) std::this_thread::yield();
  world.srcu.synchronize();
  CHECK(step.load() == 2);
  reader.join();
  world.srcu.cleanup();
}

TEST_CASE("barriers and calls from several threads all come to an end") {
  World world;
  std::atomic<int> ran{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int turn = 0; turn < 5; ++turn) {
        world.srcu.call([&] { ran.fetch_add(1); });
        world.srcu.barrier();
      }
    });
  for (std::thread& thread : threads) thread.join();
  world.srcu.barrier();
  CHECK(ran.load() == 20);
  world.srcu.cleanup();
}
