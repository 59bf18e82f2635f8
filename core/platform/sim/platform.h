// The platform of virtual time. See platform/concept.h for what each part promises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "platform/concept.h"
#include "platform/sim/atomic.h"
#include "platform/sim/machine.h"
#include "platform/sim/rt_mutex.h"
#include "platform/sim/sync.h"
#include "platform/sim/tracked.h"

namespace mqlab::sim {

/// READ_ONCE() and WRITE_ONCE() of a variable that orders nothing: no scheduling point.
template <class T>
class Relaxed {
 public:
  Relaxed() = default;
  Relaxed(T value) : value_(value) {}  // NOLINT(google-explicit-constructor): as std::atomic
  T load() const { return value_; }
  void store(T value) { value_ = value; }

 private:
  T value_{};
};

struct Platform {
  /// Whether tasks that nobody joined end before the objects that they use.
  static constexpr bool kMachineEndsTasks = true;
  /// Virtual caches have no lines: padding would only take memory.
  static constexpr std::size_t kCacheLineBytes = alignof(std::max_align_t);

  template <class T>
  using atomic = Atomic<T>;
  template <class T>
  using relaxed = Relaxed<T>;
  using spinlock = Spinlock;
  using rt_mutex = RtMutex;
  using mutex = Mutex;
  using rw_semaphore = RwSemaphore;
  using completion = Completion;
  using wait_queue = WaitQueue;
  using thread = Task*;
  template <class T>
  using tracked = Tracked<T>;

  /// A timer of the running machine, on the CPU that arms it.
  class timer : public Timer {
   public:
    explicit timer(std::function<void()> expired) : Timer(Machine::current(), std::move(expired)) {}
    void arm_at(std::uint64_t when_ns) {
      set_cpu(this_cpu());
      Timer::arm_at(when_ns);
    }
    void arm_jiffies(std::uint64_t delay) {
      set_cpu(this_cpu());
      Timer::arm_jiffies(delay);
    }
    void arm_tick() {
      set_cpu(this_cpu());
      Timer::arm_tick();
    }
  };

  static thread spawn(const platform::SpawnOptions& options, std::function<void()> body) {
    return Machine::current().spawn({options.name, options.cpu, options.priority, options.daemon}, std::move(body));
  }
  static void join(thread task) { Machine::current().join(task); }
  static unsigned this_cpu() { return Machine::current().this_cpu(); }
  static unsigned nr_cpus() { return Machine::current().nr_cpus(); }
  static unsigned hz() { return Machine::current().hz(); }
  static std::uint64_t now_ns() { return Machine::current().now_ns(); }
  static std::uint64_t jiffies() { return Machine::current().jiffies(); }
  static void charge(platform::Cost cost, std::uint64_t times = 1) { Machine::current().charge(cost, times); }
  /// The CPU is busy for so long, by the clock.
  static void busy_ns(std::uint64_t ns) { Machine::current().advance(ns); }
  static void sleep_ns(std::uint64_t ns) { Machine::current().sleep_ns(ns); }
  static void sleep_jiffies(std::uint64_t delay) { Machine::current().sleep_jiffies(delay); }
  static void yield() { Machine::current().yield(); }
  static std::uint64_t cost_ns(platform::Cost cost) { return Machine::current().cost_ns(cost); }
  static bool cpu_idle(unsigned cpu) { return Machine::current().cpu_idle(cpu); }
  static bool cpu_quiescent(unsigned cpu) { return Machine::current().cpu_quiescent(cpu); }
  static bool cpu_must_switch(unsigned cpu) { return Machine::current().cpu_must_switch(cpu); }
  static std::uint64_t jiffy_time_ns(std::uint64_t jiffy) { return Machine::current().jiffy_time_ns(jiffy); }
  static bool ticks(unsigned cpu) { return Machine::current().ticks(cpu); }
  static bool tick_begins_later(unsigned cpu) { return Machine::current().tick_begins_later(cpu); }
  static void hold_tick(unsigned cpu, bool held) { Machine::current().hold_tick(cpu, held); }
  static std::uint64_t cpu_switches(unsigned cpu) { return Machine::current().cpu_switches(cpu); }
  static void interrupt(unsigned cpu, std::function<void()> handler) {
    Machine::current().interrupt(cpu, std::move(handler));
  }
  /// A full memory barrier. Operations are in order anyway; it costs what an atomic on a line of one's own does.
  static void smp_mb() { charge(platform::Cost::kAtomicLocal); }
  static std::uint64_t random_below(std::uint64_t bound) { return Machine::current().random().below(bound); }
};

static_assert(platform::Platform<Platform>);

}  // namespace mqlab::sim
