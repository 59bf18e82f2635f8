// The platform of real threads. See platform/concept.h for what each part promises.
//
// Charges and lifetimes cost nothing here: the functions are empty and the pointer is a pointer.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

#include "platform/concept.h"
#include "platform/native/sync.h"
#include "platform/native/thread.h"
#include "platform/native/timer.h"

namespace mqlab::native {

/// A variable that threads may read and write at once and that orders nothing: READ_ONCE() and WRITE_ONCE().
template <class T>
class Relaxed {
 public:
  Relaxed() = default;
  Relaxed(T value) : value_(value) {}  // NOLINT(google-explicit-constructor): as std::atomic
  T load() const { return value_.load(std::memory_order_relaxed); }
  void store(T value) { value_.store(value, std::memory_order_relaxed); }

 private:
  std::atomic<T> value_{};
};

/// An owning pointer that frees nothing by itself; see sim/tracked.h for what the simulated one reports.
template <class T>
class Tracked {
 public:
  Tracked() = default;

  template <class... Args>
  static Tracked make(const char* /*name*/, Args&&... args) {
    Tracked pointer;
    pointer.object_ = new T(std::forward<Args>(args)...);
    return pointer;
  }
  void free() {
    delete object_;
    object_ = nullptr;
  }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  bool operator==(const Tracked& other) const { return object_ == other.object_; }

 private:
  T* object_ = nullptr;
};

struct Platform {
  /// Whether tasks that nobody joined end before the objects that they use.
  static constexpr bool kMachineEndsTasks = false;
  /// Objects of different CPUs are kept this far apart.
  static constexpr std::size_t kCacheLineBytes = 64;

  template <class T>
  using atomic = std::atomic<T>;
  template <class T>
  using relaxed = Relaxed<T>;
  using spinlock = Spinlock;
  using mutex = Mutex;
  using rw_semaphore = RwSemaphore;
  using completion = Completion;
  using wait_queue = WaitQueue;
  using timer = Timer;
  using thread = Thread;
  template <class T>
  using tracked = Tracked<T>;

  static thread spawn(const platform::SpawnOptions& options, std::function<void()> body) {
    return native::spawn(options, std::move(body));
  }
  static void join(thread& handle) { handle.join(); }
  static void join(thread&& handle) { handle.join(); }
  static unsigned this_cpu() { return this_slot(); }
  static unsigned nr_cpus() { return nr_slots(); }
  static constexpr unsigned hz() { return kHz; }
  static std::uint64_t now_ns() { return native::now_ns(); }
  static std::uint64_t jiffies() { return native::jiffies(); }
  static constexpr void charge(platform::Cost, std::uint64_t = 1) {}
  /// The CPU is busy for so long, by the clock.
  static void busy_ns(std::uint64_t ns) {
    for (const std::uint64_t end = native::now_ns() + ns; native::now_ns() < end;) cpu_relax();
  }
  static void sleep_ns(std::uint64_t ns) { std::this_thread::sleep_for(std::chrono::nanoseconds(ns)); }
  static void sleep_jiffies(std::uint64_t delay) {
    constexpr std::uint64_t kTickNs = 1'000'000'000ULL / kHz;
    sleep_ns((native::jiffies() + delay + 1) * kTickNs - native::now_ns());
  }
  static void yield() { std::this_thread::yield(); }
  /// A full memory barrier. The thread sanitizer does not follow fences; there every processor it knows takes a locked
  /// instruction for one.
  static void smp_mb() {
#if defined(__SANITIZE_THREAD__)
    thread_local std::atomic<std::uint32_t> barrier{0};
    barrier.fetch_add(0, std::memory_order_seq_cst);
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  }
  static std::uint64_t random_below(std::uint64_t bound) { return native::random_below(bound); }
};

static_assert(platform::Platform<Platform>);

}  // namespace mqlab::native
