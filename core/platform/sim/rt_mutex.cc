#include "platform/sim/rt_mutex.h"

#include <algorithm>

#include "base/error.h"

namespace mqlab::sim {

using platform::Cost;

void RtMutex::lock() {
  Machine& machine = Machine::current();
  machine.charge(Cost::kLockUncontended);
  Task* const self = machine.current_task();
  ++stats_.acquired;
  if (machine.shutting_down()) {
    owner_ = self;
  } else if (owner_ == nullptr && waiters_.empty()) {
    owner_ = self;
  } else {
    lock_slow(machine, self);
  }
}

void RtMutex::lock_slow(Machine& machine, Task* self) {
  if (owner_ == self) {
    throw Error(ErrorKind::kViolation,
                self->name() + " locks an rt_mutex that it holds (seed " + std::to_string(machine.seed()) + ")");
  }
  const TimeNs start_ns = machine.now_ns();
  ++stats_.contended;
  wait_lock_.lock();
  machine.charge(Cost::kRtMutexSlowLock);
  if (!try_take(self, nullptr)) {
    Waiter waiter{.task = self, .priority = waiter_priority(*self)};
    insert(waiter);
    self->blocked_on_ = this;
    self->in_rtlock_wait_ = true;
    if (owner_ != nullptr) inherit(machine, owner_);
    try {
      wait(machine, waiter);
    } catch (...) {
      remove(waiter);
      throw;
    }
    self->in_rtlock_wait_ = false;
    self->blocked_on_ = nullptr;
  }
  wait_lock_.unlock();
  stats_.waited_ns += machine.now_ns() - start_ns;
}

// Called and left with wait_lock_ held.
void RtMutex::wait(Machine& machine, Waiter& waiter) {
  while (!try_take(waiter.task, &waiter)) {
    const Task* const owner = waiters_.front() == &waiter ? owner_ : nullptr;
    wait_lock_.unlock();
    if (owner == nullptr || !spin_on_owner(machine, waiter, owner)) {
      const bool free_for_us = owner_ == nullptr && waiters_.front() == &waiter;
      if (!free_for_us) {
        ++stats_.sleeps;
        waiter.asleep = true;  // no scheduling point from the check to here: the owner's unlock sees it
        machine.block("rt_mutex");
        waiter.asleep = false;
      }
    } else {
      ++stats_.spins;
    }
    wait_lock_.lock();
  }
}

bool RtMutex::spin_on_owner(Machine& machine, const Waiter& waiter, const Task* owner) {
  if (!top_waiter_spins_) return false;
  const TimeNs poll_ns = std::max<TimeNs>(1, machine.cost_ns(Cost::kSpinHandover));
  const TimeNs start_ns = machine.now_ns();
  bool released = false;
  while (!machine.shutting_down()) {
    released = owner_ != owner;
    if (released || owner->state() != Task::State::kRunning || waiters_.front() != &waiter) break;
    machine.advance(poll_ns);
  }
  stats_.spun_ns += machine.now_ns() - start_ns;
  return released;
}

void RtMutex::unlock() {
  Machine& machine = Machine::current();
  if (waiters_.empty() || machine.shutting_down()) {
    owner_ = nullptr;
    return;
  }
  machine.preempt_disable();
  wait_lock_.lock();
  machine.charge(Cost::kRtMutexSlowUnlock);
  if (machine.shutting_down()) {
    owner_ = nullptr;  // the machine stopped meanwhile, and with it the order of owners
    return;
  }
  Task* const self = owner_;
  disown();
  inherit(machine, self);
  wait_lock_.unlock();
  wake_top(machine);
  machine.preempt_enable();
}

void RtMutex::wake_top(Machine& machine) {
  if (waiters_.empty()) return;
  Waiter* const top = waiters_.front();
  // Whoever clears the mark wakes the sleeper, so that nobody wakes it a second time, out of its next sleep.
  if (std::exchange(top->asleep, false)) machine.wake(top->task);
}

bool RtMutex::try_take(Task* self, Waiter* waiter) {
  if (owner_ != nullptr) return false;
  if (!waiters_.empty() && waiters_.front() != waiter) {
    const int priority = waiter != nullptr ? waiter->priority : waiter_priority(*self);
    if (!may_steal(priority, waiters_.front()->priority)) return false;
  }
  if (waiter != nullptr) remove(*waiter);
  own(self);
  return true;
}

bool RtMutex::may_steal(int priority, int top_priority) {
  if (priority != top_priority) return priority > top_priority;
  return priority < kRtPriorityBase;
}

int RtMutex::waiter_priority(const Task& task) { return std::max(task.priority(), kRtPriorityBase - 1); }

void RtMutex::place(Waiter& waiter) {
  const auto after = std::find_if(waiters_.begin(), waiters_.end(),
                                  [&](const Waiter* other) { return other->priority < waiter.priority; });
  waiters_.insert(after, &waiter);
}

void RtMutex::insert(Waiter& waiter) {
  place(waiter);
  if (owner_ != nullptr && waiters_.size() == 1) owner_->contended_.push_back(this);
}

void RtMutex::remove(const Waiter& waiter) {
  std::erase(waiters_, &waiter);
  if (owner_ != nullptr && waiters_.empty()) std::erase(owner_->contended_, this);
}

void RtMutex::own(Task* self) {
  owner_ = self;
  if (waiters_.empty()) return;
  self->contended_.push_back(this);
  inherit(Machine::current(), self);
}

void RtMutex::disown() {
  std::erase(owner_->contended_, this);
  owner_ = nullptr;
}

void RtMutex::reorder(const Task* task) {
  const auto found = std::find_if(waiters_.begin(), waiters_.end(), [&](const Waiter* w) { return w->task == task; });
  if (found == waiters_.end()) return;
  Waiter* const waiter = *found;
  waiter->priority = waiter_priority(*task);
  waiters_.erase(found);
  place(*waiter);
}

// Gives the owner what its waiters lend, and goes on along the chain while that changes something.
void RtMutex::inherit(Machine& machine, Task* owner) {
  while (owner != nullptr) {
    int lent = Task::kInheritsNothing;
    for (const RtMutex* lock : owner->contended_) lent = std::max(lent, lock->waiters_.front()->task->priority());
    const int before = owner->priority();
    machine.inherit_priority(owner, lent);
    if (owner->priority() == before || owner->blocked_on_ == nullptr) return;
    RtMutex* const next = owner->blocked_on_;
    next->reorder(owner);
    owner = next->owner_;
    // A free lock has woken the waiter that was on top; now another one may be.
    if (owner == nullptr) next->wake_top(machine);
  }
}

}  // namespace mqlab::sim
