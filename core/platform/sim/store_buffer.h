// A platform on which a store may be seen late: each CPU has a buffer of stores that others do not see yet.
//
// kX86 (TSO): stores leave the buffer in order; a load may pass them; every read-modify-write, thus every lock taken,
// is a full barrier; releasing a spinlock is a plain store, and releasing an rt_mutex is a read-modify-write. kWeak: as
// far as the kernel's memory model lets a load pass a store: only smp_mb() and read-modify-writes that return a value
// (seq_cst) are full barriers; relaxed ones (set_bit, clear_bit), and taking or releasing a lock, are not.
//
// For exploring schedules: each operation takes a random time and now and then a long one, as if the CPU were taken
// away, and each buffered store leaves at a random moment. All of it comes from the machine's seed.
//
// Thread safety: of one machine. Objects must outlive the buffered stores to them: StoreBuffers::drain_all().
#pragma once

#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "platform/sim/platform.h"

namespace mqlab::sim {

enum class MemoryModel { kX86, kWeak };

/// The buffers of a machine's CPUs, while this object lives the current one of this thread.
class StoreBuffers {
 public:
  StoreBuffers(MemoryModel model, unsigned cpus)
      : model_(model), buffers_(cpus), outer_(std::exchange(current_, this)) {}
  ~StoreBuffers() { current_ = outer_; }
  StoreBuffers(const StoreBuffers&) = delete;
  StoreBuffers& operator=(const StoreBuffers&) = delete;

  static StoreBuffers& current() {
    if (current_ == nullptr) throw Error(ErrorKind::kInternal, "no store buffers on this thread");
    return *current_;
  }

  MemoryModel model() const { return model_; }

  /// A scheduling point of random length, at which some stores become visible.
  void scheduling_point() {
    Machine& machine = Machine::current();
    constexpr std::uint64_t kUsualNs = 40;
    constexpr std::uint64_t kLongNs = 3000;
    const bool taken_away = machine.random().below(16) == 0;
    machine.advance(1 + machine.random().below(taken_away ? kLongNs : kUsualNs));
    for (auto& buffer : buffers_)
      if (!buffer.empty() && machine.random().below(4) == 0) drain_one(buffer);
  }

  void put(const void* address, std::function<void()> store) { own().push_back({address, std::move(store)}); }
  void drain_own() {
    while (!own().empty()) drain_one(own());
  }
  /// Up to the last store to `address`: no CPU sees its own stores to one place out of order.
  void drain_own_until(const void* address) {
    auto& buffer = own();
    std::size_t count = 0;
    for (std::size_t i = 0; i < buffer.size(); ++i)
      if (buffer[i].address == address) count = i + 1;
    for (; count > 0; --count) drain_one(buffer);
  }
  void drain_all() {
    for (auto& buffer : buffers_)
      while (!buffer.empty()) drain_one(buffer);
  }

 private:
  struct Entry {
    const void* address;
    std::function<void()> store;
  };
  using Buffer = std::deque<Entry>;

  Buffer& own() { return buffers_[Machine::current().this_cpu()]; }
  static void drain_one(Buffer& buffer) {
    buffer.front().store();
    buffer.pop_front();
  }

  static inline thread_local StoreBuffers* current_ = nullptr;
  MemoryModel model_;
  std::vector<Buffer> buffers_;
  StoreBuffers* outer_;
};

template <class T>
class BufferedAtomic {
 public:
  BufferedAtomic() = default;
  BufferedAtomic(T value)
      : memory_(value),
        latest_(Machine::current().nr_cpus(), {value, 0}) {}  // NOLINT(google-explicit-constructor): as std::atomic
  BufferedAtomic(const BufferedAtomic&) = delete;
  BufferedAtomic& operator=(const BufferedAtomic&) = delete;

  T load(std::memory_order = std::memory_order_seq_cst) const {
    StoreBuffers::current().scheduling_point();
    const Own& own = latest_[Machine::current().this_cpu()];
    return own.buffered > 0 ? own.value : memory_;
  }
  void store(T value, std::memory_order order = std::memory_order_seq_cst) {
    if (order == std::memory_order_seq_cst) {
      exchange(value);
      return;
    }
    StoreBuffers& buffers = StoreBuffers::current();
    buffers.scheduling_point();
    Own& own = latest_[Machine::current().this_cpu()];
    own.value = value;
    ++own.buffered;
    buffers.put(this, [this, &own, value] {
      memory_ = value;
      --own.buffered;
    });
  }
  T exchange(T value, std::memory_order order = std::memory_order_seq_cst) {
    return modify(order, [value](T) { return value; });
  }
  T fetch_add(T value, std::memory_order order = std::memory_order_seq_cst) {
    return modify(order, [value](T old) { return static_cast<T>(old + value); });
  }
  T fetch_sub(T value, std::memory_order order = std::memory_order_seq_cst) {
    return modify(order, [value](T old) { return static_cast<T>(old - value); });
  }
  T fetch_or(T value, std::memory_order order = std::memory_order_seq_cst) {
    return change_bits(order, [value](T old) { return static_cast<T>(old | value); });
  }
  T fetch_and(T value, std::memory_order order = std::memory_order_seq_cst) {
    return change_bits(order, [value](T old) { return static_cast<T>(old & value); });
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order order = std::memory_order_seq_cst,
                               std::memory_order = std::memory_order_seq_cst) {
    const T wanted = expected;
    expected = modify(order, [wanted, desired](T old) { return old == wanted ? desired : old; });
    return expected == wanted;
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order success = std::memory_order_seq_cst,
                             std::memory_order failure = std::memory_order_seq_cst) {
    return compare_exchange_strong(expected, desired, success, failure);
  }

 private:
  struct Own {
    T value;
    unsigned buffered;
  };

  template <class Change>
  T modify(std::memory_order order, Change&& change) {
    StoreBuffers& buffers = StoreBuffers::current();
    buffers.scheduling_point();
    if (buffers.model() == MemoryModel::kX86 || order == std::memory_order_seq_cst)
      buffers.drain_own();
    else
      buffers.drain_own_until(this);
    return std::exchange(memory_, change(memory_));
  }

  // On a weak machine a relaxed one is seen late, as a store. It returns what this CPU sees, which may be old.
  template <class Change>
  T change_bits(std::memory_order order, Change&& change) {
    StoreBuffers& buffers = StoreBuffers::current();
    if (buffers.model() == MemoryModel::kX86 || order == std::memory_order_seq_cst) return modify(order, change);
    const T seen = load(order);
    Own& own = latest_[Machine::current().this_cpu()];
    own.value = change(seen);
    ++own.buffered;
    buffers.put(this, [this, &own, change] {
      memory_ = change(memory_);
      --own.buffered;
    });
    return seen;
  }

  T memory_{};
  std::vector<Own> latest_ = std::vector<Own>(Machine::current().nr_cpus(), Own{T{}, 0});
};

/// How a lock is released on x86; on a weak machine either is a store.
enum class Release { kStore, kReadModifyWrite };

/// A lock as far as order goes, for which it makes no difference whether waiters spin or sleep: they spin. Others see
/// the release when it leaves the buffer.
template <Release kRelease>
class BufferedLock {
 public:
  BufferedLock() = default;
  explicit BufferedLock(bool /*top_waiter_spins*/) {}

  void lock() {
    Machine& machine = Machine::current();
    machine.preempt_disable();
    std::uint32_t free = 0;
    while (!word_.compare_exchange_strong(free, 1, std::memory_order_acquire)) {
      if (machine.shutting_down()) return;
      free = 0;
    }
    ++stats_.acquired;
  }
  void unlock() {
    if (kRelease == Release::kReadModifyWrite && StoreBuffers::current().model() == MemoryModel::kX86)
      word_.exchange(0, std::memory_order_release);
    else
      word_.store(0, std::memory_order_release);
    Machine::current().preempt_enable();
  }
  const LockStats& stats() const { return stats_; }

 private:
  BufferedAtomic<std::uint32_t> word_{0};
  LockStats stats_;
};

using BufferedSpinlock = BufferedLock<Release::kStore>;
using BufferedRtMutex = BufferedLock<Release::kReadModifyWrite>;

/// sim::Platform with store buffers.
struct StoreBufferPlatform : Platform {
  template <class T>
  using atomic = BufferedAtomic<T>;
  using spinlock = BufferedSpinlock;
  using rt_mutex = BufferedRtMutex;

  static void smp_mb() {
    StoreBuffers::current().scheduling_point();
    StoreBuffers::current().drain_own();
  }
};

static_assert(platform::Platform<StoreBufferPlatform>);

}  // namespace mqlab::sim
