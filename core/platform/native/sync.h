// Locks and wait queues of the native platform, on atomics and futexes (std::atomic::wait).
//
// They keep the promises of platform/concept.h and of their simulated counterparts in platform/sim/sync.h: who is
// queued, what a queued writer does to new readers, that waiters of a queue are woken first come first.
//
// Thread safety: from any thread. None is recursive. Names are accepted for symmetry and not kept.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>

namespace mqlab::native {

/// Tells the processor that this is a busy wait.
inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// A waiter keeps its processor, as far as the system lets it: after some thousand turns it gives way, since on a
/// machine with fewer processors than threads the owner may not be running.
class Spinlock {
 public:
  void lock() {
    if (!held_.exchange(true, std::memory_order_acquire)) [[likely]]
      return;
    lock_slow();
  }
  bool try_lock() { return !held_.load(std::memory_order_relaxed) && !held_.exchange(true, std::memory_order_acquire); }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  [[gnu::noinline]] void lock_slow() {
    constexpr unsigned kPatience = 4096;
    for (unsigned turn = 0; !try_lock(); ++turn) {
      if (turn % kPatience == kPatience - 1)
        std::this_thread::yield();
      else
        cpu_relax();
    }
  }

  std::atomic<bool> held_{false};
};

/// The three-state futex mutex: free, held, held and perhaps waited for.
class Mutex {
 public:
  explicit Mutex(const char* = "mutex") {}

  void lock() {
    std::uint32_t expected = kFree;
    if (state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire, std::memory_order_relaxed)) return;
    // From here on the state says that somebody may wait, so that the owner's unlock() wakes.
    while (state_.exchange(kContended, std::memory_order_acquire) != kFree)
      state_.wait(kContended, std::memory_order_relaxed);
  }
  bool try_lock() {
    std::uint32_t expected = kFree;
    return state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kContended) state_.notify_one();
  }
  bool held() const { return state_.load(std::memory_order_relaxed) != kFree; }

 private:
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kHeld = 1;
  static constexpr std::uint32_t kContended = 2;
  std::atomic<std::uint32_t> state_{kFree};
};

/// A queue of threads that wait for a condition. prepare() queues the caller before it looks at its condition, so a
/// wake-up between the look and sleep() is not lost.
class WaitQueue {
 public:
  class Entry {
   public:
    Entry() = default;
    ~Entry() {
      if (queue_ != nullptr) queue_->finish(*this);
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    friend class WaitQueue;
    std::atomic<std::uint32_t> woken_{0};
    WaitQueue* queue_ = nullptr;  // set by its own thread: between prepare() and finish()
    bool queued_ = false;         // guarded by the queue's lock
    Entry* next_ = nullptr;
    Entry* previous_ = nullptr;
  };

  explicit WaitQueue(const char* = "wait_queue") {}

  void prepare(Entry& entry) {
    entry.queue_ = this;
    lock_.lock();
    entry.woken_.store(0, std::memory_order_relaxed);
    if (!entry.queued_) append(entry);
    lock_.unlock();
  }
  void sleep(Entry& entry) {
    while (entry.woken_.load(std::memory_order_acquire) == 0) entry.woken_.wait(0, std::memory_order_acquire);
  }
  /// After it the entry may go; a waker that took it off the queue is through with it.
  void finish(Entry& entry) {
    lock_.lock();
    if (entry.queued_) remove(entry);
    lock_.unlock();
    entry.queue_ = nullptr;
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
    lock_.lock();
    for (; woken < count && head_ != nullptr; ++woken) {
      Entry& entry = *head_;
      remove(entry);
      // Under the lock: the waiter's finish() so cannot return, and the entry not go, before this is done with it.
      entry.woken_.store(1, std::memory_order_release);
      entry.woken_.notify_one();
    }
    lock_.unlock();
    return woken;
  }
  void wake_one() { wake(1); }
  void wake_all() { wake(~0U); }
  bool active() const { return waiters_.load(std::memory_order_seq_cst) != 0; }

 private:
  // Not inlined: gcc then takes the entry for one that outlives its place on the stack.
  [[gnu::noinline]] void append(Entry& entry) {
    entry.queued_ = true;
    entry.next_ = nullptr;
    entry.previous_ = tail_;
    (tail_ != nullptr ? tail_->next_ : head_) = &entry;
    tail_ = &entry;
    waiters_.fetch_add(1, std::memory_order_seq_cst);
  }
  void remove(Entry& entry) {
    entry.queued_ = false;
    (entry.previous_ != nullptr ? entry.previous_->next_ : head_) = entry.next_;
    (entry.next_ != nullptr ? entry.next_->previous_ : tail_) = entry.previous_;
    waiters_.fetch_sub(1, std::memory_order_relaxed);
  }

  Spinlock lock_;
  Entry* head_ = nullptr;
  Entry* tail_ = nullptr;
  std::atomic<std::uint32_t> waiters_{0};
};

class Completion {
 public:
  explicit Completion(const char* = "completion") {}
  void wait() {
    queue_.wait([this] { return take(); });
  }
  void complete() {
    done_.fetch_add(1, std::memory_order_seq_cst);
    queue_.wake_one();
  }
  void complete_all() {
    done_.store(kAll, std::memory_order_seq_cst);
    queue_.wake_all();
  }
  void reinit() { done_.store(0, std::memory_order_relaxed); }
  bool done() const { return done_.load(std::memory_order_acquire) > 0; }

 private:
  static constexpr std::uint32_t kAll = 1U << 30;

  bool take() {
    std::uint32_t count = done_.load(std::memory_order_acquire);
    while (count > 0) {
      const std::uint32_t left = count >= kAll ? count : count - 1;
      if (done_.compare_exchange_weak(count, left, std::memory_order_acq_rel, std::memory_order_acquire)) return true;
    }
    return false;
  }

  std::atomic<std::uint32_t> done_{0};
  WaitQueue queue_;
};

/// rw_semaphore: FIFO, but a free lock is taken by whoever comes; a queued writer keeps new readers out while readers
/// are inside; the readers at the head are let in together.
class RwSemaphore {
 public:
  explicit RwSemaphore(const char* = "rw_semaphore") {}

  void down_read() { down(false); }
  void down_write() { down(true); }
  void up_read() {
    lock_.lock();
    --readers_;
    grant();
    lock_.unlock();
  }
  void up_write() {
    lock_.lock();
    writer_ = false;
    grant();
    lock_.unlock();
  }

 private:
  struct Waiter {
    bool write;
    std::atomic<std::uint32_t> granted{0};
    Waiter* next = nullptr;
  };

  void down(bool write) {
    lock_.lock();
    const bool free = write ? !writer_ && readers_ == 0 : !writer_ && (head_ == nullptr || readers_ == 0);
    if (free) {
      take(write);
      lock_.unlock();
      return;
    }
    Waiter self{.write = write};
    (tail_ != nullptr ? tail_->next : head_) = &self;
    tail_ = &self;
    lock_.unlock();
    while (self.granted.load(std::memory_order_acquire) == 0) self.granted.wait(0, std::memory_order_acquire);
    // The granter still holds lock_ while it touches this waiter.
    lock_.lock();
    lock_.unlock();
  }
  void take(bool write) {
    if (write)
      writer_ = true;
    else
      ++readers_;
  }
  // With lock_ held. Lets in the writer at the head, or all readers up to the first writer.
  void grant() {
    while (head_ != nullptr && !writer_ && (!head_->write || readers_ == 0)) {
      Waiter& waiter = *head_;
      head_ = waiter.next;
      if (head_ == nullptr) tail_ = nullptr;
      take(waiter.write);
      waiter.granted.store(1, std::memory_order_release);
      waiter.granted.notify_one();
    }
  }

  Spinlock lock_;
  unsigned readers_ = 0;
  bool writer_ = false;
  Waiter* head_ = nullptr;
  Waiter* tail_ = nullptr;
};

}  // namespace mqlab::native
