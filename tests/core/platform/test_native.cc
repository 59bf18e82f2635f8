// The native platform's locks, queues and timers under real threads. What they must not do (let two in, lose a wake-up,
// overtake a queued writer) is what the cases try to provoke; the thread sanitizer sees the same runs.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "platform/native/platform.h"

using namespace mqlab;
using native::Platform;

namespace {

constexpr int kThreads = 4;

void on_threads(int count, const std::function<void(int)>& body) {
  std::vector<Platform::thread> threads;
  threads.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) threads.push_back(Platform::spawn({.name = "t"}, [&body, i] { body(i); }));
  for (auto& thread : threads) Platform::join(thread);
}

template <class Lock>
void count_under(Lock& lock) {
  constexpr int kTurns = 20'000;
  int counter = 0;
  on_threads(kThreads, [&](int) {
    for (int turn = 0; turn < kTurns; ++turn) {
      const platform::Guard<Lock> guard(lock);
      ++counter;
    }
  });
  CHECK(counter == kThreads * kTurns);
}

}  // namespace

TEST_CASE("spinlock and mutex let one in at a time") {
  Platform::spinlock spin;
  count_under(spin);
  Platform::mutex mutex;
  count_under(mutex);
  CHECK_FALSE(mutex.held());
}

TEST_CASE("a wait queue loses no wake-up between the look and the sleep") {
  constexpr int kTurns = 5'000;
  Platform::wait_queue queue;
  std::atomic<int> ball{0};
  on_threads(2, [&](int self) {
    for (int turn = 0; turn < kTurns; ++turn) {
      queue.wait([&] { return ball.load() % 2 == self; });
      ball.fetch_add(1);
      queue.wake_all();
    }
  });
  CHECK(ball.load() == 2 * kTurns);
  CHECK_FALSE(queue.active());
}

TEST_CASE("wake(n) wakes n waiters, first come first") {
  Platform::wait_queue queue;
  std::atomic<int> queued{0};
  std::atomic<int> woken{0};
  std::vector<Platform::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.push_back(Platform::spawn({}, [&] {
      Platform::wait_queue::Entry entry;
      queue.prepare(entry);
      queued.fetch_add(1);
      queue.sleep(entry);
      queue.finish(entry);
      woken.fetch_add(1);
    }));
  while (queued.load() < 3) Platform::yield();
  CHECK(queue.wake(2) == 2);
  while (woken.load() < 2) Platform::yield();
  CHECK(queue.active());
  CHECK(queue.wake(5) == 1);
  for (auto& thread : threads) Platform::join(thread);
  CHECK(woken.load() == 3);
}

TEST_CASE("a prepared entry that is not needed leaves the queue") {
  Platform::wait_queue queue;
  {
    Platform::wait_queue::Entry entry;
    queue.prepare(entry);
    CHECK(queue.active());
  }
  CHECK_FALSE(queue.active());
}

TEST_CASE("rw_semaphore: readers together, a writer alone, a queued writer before new readers") {
  Platform::rw_semaphore lock;
  int shared = 0;
  std::atomic<int> readers{0};
  std::atomic<bool> overlap{false};
  on_threads(kThreads, [&](int self) {
    for (int turn = 0; turn < 2'000; ++turn) {
      if ((turn + self) % 4 == 0) {
        lock.down_write();
        if (readers.load() != 0) overlap = true;
        ++shared;
        lock.up_write();
      } else {
        lock.down_read();
        readers.fetch_add(1);
        if (shared < 0) overlap = true;
        readers.fetch_sub(1);
        lock.up_read();
      }
    }
  });
  CHECK(shared == kThreads * 2'000 / 4);
  CHECK_FALSE(overlap.load());

  lock.down_read();
  std::atomic<bool> writing{false};
  std::atomic<bool> reading{false};
  auto writer = Platform::spawn({}, [&] {
    lock.down_write();
    writing = true;
    lock.up_write();
  });
  Platform::sleep_ns(20'000'000);
  auto reader = Platform::spawn({}, [&] {
    lock.down_read();
    reading = true;
    lock.up_read();
  });
  Platform::sleep_ns(20'000'000);
  CHECK_FALSE(writing.load());
  CHECK_FALSE(reading.load());
  lock.up_read();
  Platform::join(writer);
  Platform::join(reader);
  CHECK(writing.load());
  CHECK(reading.load());
}

TEST_CASE("completion: one wait for each complete(), any number after complete_all()") {
  Platform::completion done;
  std::atomic<int> passed{0};
  std::vector<Platform::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.push_back(Platform::spawn({}, [&] {
      done.wait();
      passed.fetch_add(1);
    }));
  done.complete();
  while (passed.load() < 1) Platform::yield();
  Platform::sleep_ns(5'000'000);
  CHECK(passed.load() == 1);
  done.complete_all();
  for (auto& thread : threads) Platform::join(thread);
  CHECK(passed.load() == kThreads);
  CHECK(done.done());
  done.reinit();
  CHECK_FALSE(done.done());
}

TEST_CASE("a timer fires after its whole jiffies, once, and not after cancel()") {
  std::atomic<int> fired{0};
  Platform::timer timer([&] { fired.fetch_add(1); });
  const std::uint64_t start = Platform::now_ns();
  timer.arm_jiffies(3);
  CHECK(timer.armed());
  while (fired.load() == 0) Platform::sleep_ns(100'000);
  CHECK(Platform::now_ns() - start >= 3'000'000);
  CHECK_FALSE(timer.armed());
  timer.arm_jiffies(1000);
  CHECK(timer.cancel());
  CHECK_FALSE(timer.cancel());
  CHECK(fired.load() == 1);
}

TEST_CASE("a timer that goes while its function runs waits for it") {
  for (int turn = 0; turn < 20; ++turn) {
    std::atomic<bool> inside{false};
    bool finished = false;
    {
      Platform::timer timer([&] {
        inside = true;
        Platform::sleep_ns(1'000'000);
        finished = true;
      });
      timer.arm_jiffies(0);
      while (!inside.load()) Platform::yield();
    }
    CHECK(finished);
  }
}

TEST_CASE("a thread keeps its slot") {
  CHECK(Platform::this_cpu() < Platform::nr_cpus());
  CHECK(Platform::this_cpu() == Platform::this_cpu());
  unsigned slot = 0;
  auto thread = Platform::spawn({.cpu = 0}, [&] { slot = Platform::this_cpu(); });
  Platform::join(thread);
  CHECK(slot == 0);
}
