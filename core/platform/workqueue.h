// A workqueue: functions that run later, in workers that may sleep.
//
// Thread safety: queue() may be called from any task and, in sim, from interrupts. Works of one queue run concurrently,
// in the order of queueing as far as their start goes. Invariant: a worker that sleeps does not hold up the others.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "platform/concept.h"

namespace mqlab::platform {

template <class P>
class WorkQueue {
 public:
  explicit WorkQueue(std::string name, int priority = 0) : name_(std::move(name)), priority_(priority) {}
  /// Nothing may be queued any more. Real workers finish what is queued; simulated ones ended with their machine.
  ~WorkQueue() {
    if constexpr (!P::kMachineEndsTasks) stop();
  }
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void queue(std::function<void()> work) {
    Worker* worker = nullptr;
    {
      const Guard<typename P::spinlock> guard(lock_);
      pending_.push_back(std::move(work));
      if (!idle_.empty()) {
        worker = idle_.back();
        idle_.pop_back();
      } else {
        worker = add_worker();
      }
    }
    worker->kick.complete();
  }

 private:
  struct Worker {
    typename P::completion kick{"work"};
    typename P::thread thread;
  };

  void stop() {
    std::vector<Worker*> workers;
    {
      const Guard<typename P::spinlock> guard(lock_);
      stopping_ = true;
      for (const auto& worker : workers_) workers.push_back(worker.get());
    }
    for (Worker* worker : workers) worker->kick.complete();
    for (Worker* worker : workers) P::join(worker->thread);
  }

  Worker* add_worker() {
    workers_.push_back(std::make_unique<Worker>());
    Worker* const worker = workers_.back().get();
    worker->thread = P::spawn(
        {.name = name_ + "/" + std::to_string(workers_.size()), .priority = priority_, .daemon = P::kMachineEndsTasks},
        [this, worker] { serve(*worker); });
    return worker;
  }

  void serve(Worker& worker) {
    for (;;) {
      worker.kick.wait();
      for (;;) {
        std::function<void()> work;
        {
          const Guard<typename P::spinlock> guard(lock_);
          if (pending_.empty()) {
            if (stopping_) return;
            idle_.push_back(&worker);
            break;
          }
          work = std::move(pending_.front());
          pending_.pop_front();
        }
        work();
      }
    }
  }

  std::string name_;
  int priority_;
  typename P::spinlock lock_;
  bool stopping_ = false;
  std::deque<std::function<void()>> pending_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> idle_;
};

/// A work item that is queued at most once at a time, now or some jiffies from now.
///
/// Thread safety: all functions from any task; flush() and cancel_sync() not from the work itself. Invariant:
/// `pending_` is set from queue() until the work begins, so one that is queued while it runs runs once more.
template <class P>
class DelayedWork {
 public:
  DelayedWork(WorkQueue<P>& queue, std::function<void()> work)
      : queue_(queue), work_(std::move(work)), timer_([this] { submit(); }) {}

  /// Returns false when it was pending already; then nothing changes.
  bool queue(std::uint64_t delay_jiffies) {
    if (pending_.exchange(1) != 0) return false;
    if (delay_jiffies == 0)
      submit();
    else
      timer_.arm_jiffies(delay_jiffies);
    return true;
  }
  /// Runs it no later than in `delay_jiffies`.
  void reduce(std::uint64_t delay_jiffies) {
    if (delay_jiffies == 0 && timer_.cancel()) {
      submit();
      return;
    }
    queue(delay_jiffies);
  }
  bool pending() const { return pending_.load() != 0; }
  /// Waits until it neither runs nor is about to; a timer that has not fired is not waited for.
  void flush() {
    if (timer_.cancel()) submit();
    idle_.wait([this] { return pending_.load() == 0 && running_.load() == 0; });
  }
  /// As flush(), but a timer that has not fired is called off.
  void cancel_sync() {
    if (timer_.cancel()) pending_.store(0);
    idle_.wait([this] { return pending_.load() == 0 && running_.load() == 0; });
  }

 private:
  void submit() {
    queue_.queue([this] {
      running_.fetch_add(1);
      pending_.store(0);
      work_();
      running_.fetch_sub(1);
      idle_.wake_all();
    });
  }

  WorkQueue<P>& queue_;
  std::function<void()> work_;
  typename P::timer timer_;
  typename P::wait_queue idle_{"flush_work"};
  typename P::template atomic<std::uint32_t> pending_{0};
  typename P::template atomic<std::uint32_t> running_{0};
};

}  // namespace mqlab::platform
