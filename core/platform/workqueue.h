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
  };

  Worker* add_worker() {
    workers_.push_back(std::make_unique<Worker>());
    Worker* const worker = workers_.back().get();
    P::spawn({.name = name_ + "/" + std::to_string(workers_.size()), .priority = priority_, .daemon = true},
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
  std::deque<std::function<void()>> pending_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> idle_;
};

/// A work item that is queued at most once at a time, now or some jiffies from now.
template <class P>
class DelayedWork {
 public:
  DelayedWork(WorkQueue<P>& queue, std::function<void()> work)
      : queue_(queue), work_(std::move(work)), timer_([this] { submit(); }) {}

  /// Returns false when it was pending already; then nothing changes.
  bool queue(std::uint64_t delay_jiffies) {
    if (pending_) return false;
    pending_ = true;
    if (delay_jiffies == 0)
      submit();
    else
      timer_.arm_jiffies(delay_jiffies);
    return true;
  }
  /// Runs it no later than in `delay_jiffies`.
  void reduce(std::uint64_t delay_jiffies) {
    if (delay_jiffies > 0) {
      if (!pending_) queue(delay_jiffies);
      return;
    }
    if (pending_ && timer_.cancel()) pending_ = false;
    queue(0);
  }
  bool pending() const { return pending_; }
  /// Waits until it neither runs nor is about to.
  void flush() {
    if (pending_ && timer_.cancel()) submit();
    idle_.wait([this] { return !pending_ && running_ == 0; });
  }
  /// As flush(), but a timer that has not fired is called off.
  void cancel_sync() {
    if (pending_ && timer_.cancel()) pending_ = false;
    idle_.wait([this] { return !pending_ && running_ == 0; });
  }

 private:
  void submit() {
    queue_.queue([this] {
      pending_ = false;
      ++running_;
      work_();
      --running_;
      idle_.wake_all();
    });
  }

  WorkQueue<P>& queue_;
  std::function<void()> work_;
  typename P::timer timer_;
  typename P::wait_queue idle_{"flush_work"};
  bool pending_ = false;
  unsigned running_ = 0;
};

}  // namespace mqlab::platform
