// The sleeping and spinning locks of the simulated machine, and what tasks wait on.
//
// They behave as the kernel's: who is queued, who may steal, who is handed the lock. All waiting is in virtual time.
// Thread safety: of one machine, thus of one thread; "task" below is a task of that machine.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "platform/cost.h"
#include "platform/sim/machine.h"

namespace mqlab::sim {

/// What a lock has seen. Times are summed over its waiters.
struct LockStats {
  std::uint64_t acquired = 0;
  std::uint64_t contended = 0;  ///< acquisitions that found the lock taken, or promised to a waiter
  std::uint64_t sleeps = 0;     ///< times that a waiter gave up its CPU
  std::uint64_t spins = 0;      ///< waits in which spinning met the release
  TimeNs waited_ns = 0;
  TimeNs spun_ns = 0;  ///< part of waited_ns that kept a CPU busy
};

/// spinlock_t of a kernel without PREEMPT_RT, and raw_spinlock_t of any: FIFO, waiters keep their CPU, the owner is not
/// preempted. The hold time of an owner in an interrupt is the interrupt's.
class Spinlock {
 public:
  void lock() {
    Machine& machine = Machine::current();
    machine.preempt_disable();
    machine.charge(platform::Cost::kLockUncontended);
    ++stats_.acquired;
    if (!held_) {
      held_ = true;
      return;
    }
    if (!machine.in_task()) {
      borrowed_ = true;  // an interrupt cannot wait here; it is over before the owner goes on
      return;
    }
    const TimeNs start_ns = machine.now_ns();
    waiters_.push_back(machine.current_task());
    machine.spin("spinlock");
    machine.charge(platform::Cost::kSpinHandover);
    ++stats_.contended;
    ++stats_.spins;
    stats_.waited_ns += machine.now_ns() - start_ns;
    stats_.spun_ns = stats_.waited_ns;
  }

  void unlock() {
    Machine& machine = Machine::current();
    if (!machine.in_task() && std::exchange(borrowed_, false)) return;
    if (waiters_.empty()) {
      held_ = false;
    } else {
      Task* next = waiters_.front();
      waiters_.pop_front();
      machine.wake(next);  // the lock stays held: it is the waiter's now
    }
    machine.preempt_enable();
  }

  std::size_t waiters() const { return waiters_.size(); }
  const LockStats& stats() const { return stats_; }

 private:
  bool held_ = false;
  bool borrowed_ = false;
  std::deque<Task*> waiters_;
  LockStats stats_;
};

/// mutex: the first waiter is woken and competes with whoever comes meanwhile; one that lost once is handed the lock.
class Mutex {
 public:
  explicit Mutex(const char* name = "mutex") : name_(name) {}

  void lock() {
    Machine& machine = Machine::current();
    machine.charge(platform::Cost::kLockUncontended);
    Task* const self = machine.current_task();
    if (machine.shutting_down()) owner_ = nullptr;
    if (owner_ == nullptr) {
      owner_ = self;
      return;
    }
    waiters_.push_back(self);
    bool lost = false;
    while (owner_ != self) {
      if (owner_ == nullptr && waiters_.front() == self) {
        owner_ = self;
        break;
      }
      handoff_ = handoff_ || (lost && waiters_.front() == self);
      machine.block(name_);
      lost = true;
    }
    std::erase(waiters_, self);
  }

  void unlock() {
    owner_ = nullptr;
    if (waiters_.empty()) return;
    Task* const next = waiters_.front();
    if (std::exchange(handoff_, false)) owner_ = next;
    Machine::current().wake(next);
  }

  bool held() const { return owner_ != nullptr; }
  Task* owner() const { return owner_; }

 private:
  const char* name_;
  Task* owner_ = nullptr;
  bool handoff_ = false;
  std::deque<Task*> waiters_;
};

/// rw_semaphore: FIFO; a queued writer keeps new readers out unless the lock is free at that moment (then a reader
/// takes it, as the kernel's optimistic reader does); when a reader is at the head, all queued readers are let in
/// together.
class RwSemaphore {
 public:
  explicit RwSemaphore(const char* name = "rw_semaphore") : name_(name) {}

  void down_read() { down(false); }
  void down_write() { down(true); }
  void up_read() {
    --readers_;
    if (readers_ == 0) wake_head();
  }
  void up_write() {
    writer_ = false;
    wake_head();
  }
  std::size_t waiters() const { return waiters_.size(); }

 private:
  struct Waiter {
    Task* task;
    bool write;
    bool granted = false;
  };

  void down(bool write) {
    Machine& machine = Machine::current();
    machine.charge(platform::Cost::kLockUncontended);
    if (machine.shutting_down() || can_take(write)) {
      take(write);
      return;
    }
    Waiter self{machine.current_task(), write};
    waiters_.push_back(&self);
    try {
      while (!self.granted) {
        machine.block(name_);
        if (!self.granted && waiters_.front() == &self && head_may_enter()) grant_head();
      }
    } catch (...) {
      std::erase(waiters_, &self);
      throw;
    }
  }
  bool can_take(bool write) const {
    if (write) return !writer_ && readers_ == 0 && waiters_.empty();
    // With readers inside and somebody queued, a new reader queues too, so that the writer gets its turn.
    return !writer_ && (waiters_.empty() || readers_ == 0);
  }
  void take(bool write) {
    if (write)
      writer_ = true;
    else
      ++readers_;
  }
  bool head_may_enter() const { return waiters_.front()->write ? !writer_ && readers_ == 0 : !writer_; }
  // With a reader at the head every queued reader is let in, past the writers between them.
  void grant_head() {
    const bool write = waiters_.front()->write;
    std::deque<Waiter*> stay;
    for (Waiter* const waiter : std::exchange(waiters_, {})) {
      if (write ? writer_ : waiter->write) {
        stay.push_back(waiter);
        continue;
      }
      waiter->granted = true;
      take(waiter->write);
      if (waiter->task != Machine::current().current_task()) granted_.push_back(waiter->task);
    }
    waiters_ = std::move(stay);
    for (Task* const task : std::exchange(granted_, {})) Machine::current().wake(task);
  }
  // A woken writer takes the lock when it runs, so a reader may slip in before it; readers are let in at once.
  void wake_head() {
    if (waiters_.empty()) return;
    if (waiters_.front()->write)
      Machine::current().wake(waiters_.front()->task);
    else if (head_may_enter())
      grant_head();
  }

  const char* name_;
  unsigned readers_ = 0;
  bool writer_ = false;
  std::deque<Waiter*> waiters_;
  std::vector<Task*> granted_;  // to be woken
};

/// A queue of tasks that wait for a condition. prepare() queues the caller before it looks at its condition, so a
/// wake-up between the look and sleep() is not lost even if the look has scheduling points.
class WaitQueue {
 public:
  class Entry {
   public:
    Entry() = default;
    ~Entry() {
      if (queue_ != nullptr) queue_->remove(*this);
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    friend class WaitQueue;
    Task* task_ = nullptr;
    bool woken_ = false;
    WaitQueue* queue_ = nullptr;  // that it is queued on
    Entry* next_ = nullptr;
    Entry* previous_ = nullptr;
  };

  explicit WaitQueue(const char* name = "wait_queue") : name_(name) {}

  void prepare(Entry& entry) {
    entry.task_ = Machine::current().current_task();
    entry.woken_ = false;
    if (entry.queue_ == nullptr) append(entry);
  }
  void sleep(Entry& entry) {
    do {
      Machine::current().block(name_);
    } while (!entry.woken_ && !Machine::current().shutting_down());
    entry.woken_ = false;
  }
  void finish(Entry& entry) {
    if (entry.queue_ != nullptr) remove(entry);
    // Woken without having slept: the wake-up must not end another wait.
    if (entry.woken_) Machine::current().forget_wake();
    entry.woken_ = false;
  }

  template <class Condition>
  void wait(Condition&& condition) {
    Entry entry;
    for (;;) {
      prepare(entry);
      if (condition()) break;
      sleep(entry);
    }
    finish(entry);
  }

  /// Wakes up to `count` waiters, first come first; returns how many there were to wake.
  unsigned wake(unsigned count) {
    unsigned woken = 0;
    for (; woken < count && head_ != nullptr; ++woken) {
      Entry& entry = *head_;
      remove(entry);
      entry.woken_ = true;
      Machine::current().wake(entry.task_);
    }
    return woken;
  }
  void wake_one() { wake(1); }
  void wake_all() { wake(~0U); }
  bool active() const { return head_ != nullptr; }

 private:
  // Not inlined: gcc then takes the entry for one that outlives its place on the stack.
  [[gnu::noinline]] void append(Entry& entry) {
    entry.queue_ = this;
    entry.next_ = nullptr;
    entry.previous_ = tail_;
    (tail_ != nullptr ? tail_->next_ : head_) = &entry;
    tail_ = &entry;
  }
  void remove(Entry& entry) {
    entry.queue_ = nullptr;
    (entry.previous_ != nullptr ? entry.previous_->next_ : head_) = entry.next_;
    (entry.next_ != nullptr ? entry.next_->previous_ : tail_) = entry.previous_;
  }

  const char* name_;
  Entry* head_ = nullptr;
  Entry* tail_ = nullptr;
};

class Completion {
 public:
  explicit Completion(const char* name = "completion") : queue_(name) {}
  void wait() {
    queue_.wait([this] { return done_ > 0; });
    --done_;
  }
  void complete() {
    ++done_;
    queue_.wake_one();
  }
  void complete_all() {
    done_ += 1U << 30;
    queue_.wake_all();
  }
  void reinit() { done_ = 0; }
  bool done() const { return done_ > 0; }

 private:
  unsigned done_ = 0;
  WaitQueue queue_;
};

}  // namespace mqlab::sim
