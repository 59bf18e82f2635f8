// A workqueue: functions that run later, in workers that may sleep.
//
// Simulated workers may be bound to a CPU, as those of the kernel's per-CPU queues: where a work runs decides on which
// CPU's timers and callbacks the next step waits. Real threads are placed by the real scheduler.
//
// Thread safety: queue() may be called from any task and, in sim, from interrupts. Works of one queue run concurrently,
// in the order of queueing as far as their start goes. Invariant: a worker that sleeps does not hold up the others.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "platform/concept.h"

namespace mqlab::platform {

template <class P>
class WorkQueue {
 public:
  static constexpr int kAnyCpu = -1;

  explicit WorkQueue(std::string name, int priority = 0,
                     std::size_t most_workers = std::numeric_limits<std::size_t>::max())
      : name_(std::move(name)), priority_(priority), most_workers_(most_workers) {}
  /// Nothing may be queued any more. Real workers finish what is queued; simulated ones ended with their machine.
  ~WorkQueue() {
    if constexpr (!P::kMachineEndsTasks) stop();
  }
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// In a worker of that CPU, or anywhere.
  void queue(std::function<void()> work, int cpu = kAnyCpu) {
    Worker* worker = nullptr;
    {
      const Guard<typename P::spinlock> guard(lock_);
      Pool& pool = pools_[P::kMachineEndsTasks ? cpu : kAnyCpu];
      pool.pending.push_back(std::move(work));
      if (!pool.idle.empty()) {
        worker = pool.idle.back();
        pool.idle.pop_back();
      } else if (workers_.size() < most_workers_) {
        worker = add_worker(pool, P::kMachineEndsTasks ? cpu : kAnyCpu);
      }
    }
    if (worker != nullptr) worker->kick.complete();
  }

  /// As queue(), and sleeps until the work is done.
  void queue_and_wait(std::function<void()> work) {
    typename P::completion done("work");
    queue([&work, &done] {
      work();
      done.complete();
    });
    done.wait();
  }

 private:
  struct Worker {
    typename P::completion kick{"work"};
    typename P::thread thread;
  };
  struct Pool {
    std::deque<std::function<void()>> pending;
    std::vector<Worker*> idle;
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

  Worker* add_worker(Pool& pool, int cpu) {
    workers_.push_back(std::make_unique<Worker>());
    Worker* const worker = workers_.back().get();
    worker->thread = P::spawn({.name = name_ + "/" + std::to_string(workers_.size()),
                               .cpu = cpu,
                               .priority = priority_,
                               .daemon = P::kMachineEndsTasks},
                              [this, worker, &pool] { serve(*worker, pool); });
    return worker;
  }

  void serve(Worker& worker, Pool& pool) {
    for (;;) {
      worker.kick.wait();
      for (;;) {
        std::function<void()> work;
        {
          const Guard<typename P::spinlock> guard(lock_);
          if (pool.pending.empty()) {
            if (stopping_) return;
            pool.idle.push_back(&worker);
            break;
          }
          work = std::move(pool.pending.front());
          pool.pending.pop_front();
        }
        work();
      }
    }
  }

  std::string name_;
  int priority_;
  std::size_t most_workers_;
  typename P::spinlock lock_;
  bool stopping_ = false;
  std::map<int, Pool> pools_;  // by CPU; one that is there stays where it is
  std::vector<std::unique_ptr<Worker>> workers_;
};

/// Where a delayed work runs: on the CPU that queues it or handles its timer, or always on the first.
enum class WorkPlace { kLocalCpu, kFirstCpu };

/// A work item that is queued at most once at a time, now or some jiffies from now.
///
/// Thread safety: all functions from any task; flush() and cancel_sync() not from the work itself. Invariant:
/// `pending_` is set from queue() until the work begins, so one that is queued while it runs runs once more.
template <class P>
class DelayedWork {
 public:
  DelayedWork(WorkQueue<P>& queue, std::function<void()> work, WorkPlace place = WorkPlace::kLocalCpu)
      : queue_(queue), place_(place), work_(std::move(work)), timer_([this] { submit(); }) {}

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
    queue_.queue(
        [this] {
          running_.fetch_add(1);
          pending_.store(0);
          work_();
          running_.fetch_sub(1);
          idle_.wake_all();
        },
        place_ == WorkPlace::kFirstCpu ? 0 : static_cast<int>(P::this_cpu()));
  }

  WorkQueue<P>& queue_;
  WorkPlace place_;
  std::function<void()> work_;
  typename P::timer timer_;
  typename P::wait_queue idle_{"flush_work"};
  typename P::template atomic<std::uint32_t> pending_{0};
  typename P::template atomic<std::uint32_t> running_{0};
};

}  // namespace mqlab::platform
