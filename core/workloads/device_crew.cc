#include "workloads/device_crew.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/error.h"
#include "base/window.h"

namespace mqlab::workloads {
namespace {

using Clock = std::chrono::steady_clock;

// What one thread is at. Written by that thread alone.
struct Worker {
  std::atomic<std::uint64_t> item_begin_ns{0};  // 0: between items
  std::atomic<std::size_t> item{0};
  std::uint64_t end_ns = 0;
  std::exception_ptr failure;
};

// Outlives run() where a thread hangs.
class Shift {
 public:
  Shift(CrewPhase phase, std::size_t threads) : phase_(std::move(phase)), workers_(threads), running_(threads) {}

  void work(std::size_t index) {
    if (wait_for_start()) do_items(index);
    workers_[index].end_ns = now_ns();
    finish_one();
  }

  // For a crew that could not be completed.
  void call_off() {
    gate_.store(kCalledOff);
    gate_.notify_all();
  }

  // Whether all threads ended; else the item that did not end within the limit is in hung().
  bool wait(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    while (running_ != 0) {
      // Looks again when the item that began first would pass the limit: seldom, since each look disturbs what is
      // measured.
      const auto deadline = oldest_begin() + limit;
      if (finished_.wait_until(lock, deadline, [this] { return running_ == 0; })) break;
      if (oldest_begin() + limit <= Clock::now()) return false;
    }
    return true;
  }

  std::string hung() const {
    const Worker* oldest = nullptr;
    for (const Worker& worker : workers_) {
      const std::uint64_t begin_ns = worker.item_begin_ns.load();
      if (begin_ns != 0 && (oldest == nullptr || begin_ns < oldest->item_begin_ns.load())) oldest = &worker;
    }
    return phase_.name + (oldest == nullptr ? "" : " of item " + std::to_string(oldest->item.load()));
  }

  std::uint64_t total_ns() const {
    std::uint64_t end_ns = 0;
    for (const Worker& worker : workers_) end_ns = std::max(end_ns, worker.end_ns);
    return end_ns - begin_ns_;
  }

  std::exception_ptr failure() const {
    for (const Worker& worker : workers_) {
      if (worker.failure) return worker.failure;
    }
    return nullptr;
  }

 private:
  enum : std::uint32_t { kClosed, kOpen, kCalledOff };

  // The last thread to come opens the gate for all.
  bool wait_for_start() {
    if (ready_.fetch_add(1) + 1 == workers_.size()) {
      begin_ns_ = now_ns();
      if (phase_.measured) mqlab_window_begin();
      gate_.store(kOpen);
      gate_.notify_all();
    }
    gate_.wait(kClosed);
    return gate_.load() == kOpen;
  }

  void do_items(std::size_t index) {
    Worker& worker = workers_[index];
    try {
      for (std::size_t i = index; i < phase_.items && !failed_.load(); i += workers_.size()) {
        throw_if_cancelled();
        worker.item.store(i);
        worker.item_begin_ns.store(now_ns());
        phase_.step(index, i);
        worker.item_begin_ns.store(0);
      }
    } catch (...) {
      worker.failure = std::current_exception();
      worker.item_begin_ns.store(0);
      failed_.store(true);
    }
  }

  void finish_one() {
    const std::lock_guard guard(mutex_);
    if (--running_ != 0) return;
    if (phase_.measured && gate_.load() == kOpen) mqlab_window_end();
    finished_.notify_one();
  }

  Clock::time_point oldest_begin() const {
    auto oldest = Clock::now();
    for (const Worker& worker : workers_) {
      const std::uint64_t begin_ns = worker.item_begin_ns.load();
      if (begin_ns == 0) continue;
      oldest = std::min(oldest, Clock::time_point(std::chrono::nanoseconds(begin_ns)));
    }
    return oldest;
  }

  const CrewPhase phase_;
  std::vector<Worker> workers_;
  std::atomic<std::size_t> ready_{0};
  std::atomic<std::uint32_t> gate_{kClosed};
  std::atomic<bool> failed_{false};
  std::uint64_t begin_ns_ = 0;  // written before the gate opens
  std::mutex mutex_;
  std::condition_variable finished_;
  std::size_t running_;
};

}  // namespace

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count());
}

std::uint64_t Crew::run(CrewPhase phase) const {
  const auto shift = std::make_shared<Shift>(std::move(phase), threads_);
  std::vector<std::thread> threads;
  try {
    for (std::size_t t = 0; t < threads_; ++t) threads.emplace_back([shift, t] { shift->work(t); });
  } catch (...) {
    shift->call_off();
    for (std::thread& thread : threads) thread.join();
    throw;
  }
  if (!shift->wait(limit_)) {
    for (std::thread& thread : threads) thread.detach();
    throw Error(ErrorKind::kTimeout,
                shift->hung() + " did not end within " + std::to_string(limit_.count()) +
                    " ms: it hangs in the kernel, and what it works on is left as it is",
                "look for a hung task or an oops in dmesg");
  }
  for (std::thread& thread : threads) thread.join();
  if (const std::exception_ptr failure = shift->failure()) std::rethrow_exception(failure);
  return shift->total_ns();
}

}  // namespace mqlab::workloads
