// spinlock_t of a PREEMPT_RT kernel: an rt_mutex whose waiters sleep, with priority inheritance.
//
// As the kernel's: waiters queue by priority, FIFO within one; tasks that are not real-time count as one
// priority. An owner inherits the priority of its most urgent waiter, along the chain of locks when the owner
// itself waits. At unlock the lock is left free and the top waiter is woken; until it runs, only a more
// urgent task may take the lock, or, if neither is real-time, an equal one. Equal real-time tasks therefore
// pass the lock on one wake-up at a time. The top waiter spins while the owner is on a CPU; all others sleep.
// A waiter, asleep or spinning, is in state TASK_RTLOCK_WAIT, which ps shows as D:
// Task::waits_for_rt_mutex().
//
// Thread safety: of one machine; lock() and unlock() from tasks, not from interrupts. Not recursive.
// Invariant: a lock that is free and has waiters has woken its top waiter, or the top waiter is awake.
#pragma once

#include <cstdint>
#include <vector>

#include "platform/sim/machine.h"
#include "platform/sim/sync.h"

namespace mqlab::sim {

/// Tasks of this priority and above are real-time: kRtPriorityBase + p is SCHED_FIFO of priority p.
inline constexpr int kRtPriorityBase = 100;
constexpr int fifo_priority(int rt_priority) { return kRtPriorityBase + rt_priority; }

class RtMutex {
 public:
  /// `top_waiter_spins` off: every waiter sleeps at once, as on a kernel without adaptive spinning.
  explicit RtMutex(bool top_waiter_spins = true) : top_waiter_spins_(top_waiter_spins) {}
  RtMutex(const RtMutex&) = delete;
  RtMutex& operator=(const RtMutex&) = delete;

  void lock();
  void unlock();

  void set_top_waiter_spins(bool spins) { top_waiter_spins_ = spins; }
  Task* owner() const { return owner_; }
  std::size_t waiters() const { return waiters_.size(); }
  const LockStats& stats() const { return stats_; }

 private:
  struct Waiter {
    Task* task;
    int priority;
    bool asleep = false;
  };

  void lock_slow(Machine& machine, Task* self);
  void wait(Machine& machine, Waiter& waiter);
  bool spin_on_owner(Machine& machine, const Waiter& waiter, const Task* owner);
  bool try_take(Task* self, Waiter* waiter);
  static bool may_steal(int priority, int top_priority);
  static int waiter_priority(const Task& task);
  void place(Waiter& waiter);
  void insert(Waiter& waiter);
  void remove(const Waiter& waiter);
  void own(Task* self);
  void wake_top(Machine& machine);
  void disown();
  void reorder(const Task* task);
  static void inherit(Machine& machine, Task* owner);

  bool top_waiter_spins_;
  Task* owner_ = nullptr;
  std::vector<Waiter*> waiters_;  // most urgent first
  Spinlock wait_lock_;
  LockStats stats_;
};

}  // namespace mqlab::sim
