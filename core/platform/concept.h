// What engine code stands on. The engine (reclaim, blk, drivers) is written once, as templates over a class `P` that
// meets Platform; sim::Platform runs it in virtual time, native::Platform on real threads.
//
// Everything is static: the machine is the process (native) or the simulated machine of the calling task (sim).
//
//   P::atomic<T>          load, store, exchange, fetch_add/sub/or/and, compare_exchange_*, as std::atomic. A scheduling
//                         point in sim.
//   P::relaxed<T>         load(), store(): READ_ONCE() and WRITE_ONCE() of a variable that orders nothing and that
//   other
//                         CPUs may read or write; neither a scheduling point nor a cost.
//   P::spinlock           lock(), unlock(); a waiter keeps its CPU. spinlock_t without PREEMPT_RT, raw_spinlock_t
//   always. P::mutex              lock(), unlock(); waiters sleep. P::rw_semaphore
//   down_read/up_read/down_write/up_write; a queued writer keeps new readers out. P::completion         wait(),
//   complete(), complete_all(), reinit(), done(). P::wait_queue         wait(condition), wake(n), wake_one(),
//   wake_all(), active(). The condition is checked again
//                         after each wake-up. Underneath, as the kernel's prepare_to_wait_exclusive(), schedule() and
//                         finish_wait(): prepare(entry), sleep(entry), finish(entry), with an Entry on the stack.
//   P::timer              constructed with a function; arm_jiffies(delay), cancel(), armed(). The function must not
//   sleep. P::thread             handle of spawn(); P::join(thread). P::tracked<T>         an owning pointer to an
//   object whose freeing readers may race with: `->` reports a use after
//                         free in sim (kViolation) and costs nothing in native.
//   P::charge(cost, n)    CPU time in sim, nothing in native.
//   P::random()           in [0, bound): below(bound), of the machine's (sim) or thread's (native) seeded generator.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <string>

#include "platform/cost.h"

namespace mqlab::platform {

struct SpawnOptions {
  std::string name = "task";
  int cpu = -1;         ///< bound to that CPU; -1: free
  int priority = 0;     ///< higher runs first
  bool daemon = false;  ///< nobody waits for it
};

template <class P>
concept Platform = requires(P, SpawnOptions options, std::function<void()> body, Cost cost, std::uint64_t n) {
  typename P::template atomic<std::uint64_t>;
  typename P::template relaxed<std::uint64_t>;
  typename P::spinlock;
  typename P::mutex;
  typename P::rw_semaphore;
  typename P::completion;
  typename P::wait_queue;
  typename P::timer;
  typename P::thread;
  typename P::template tracked<int>;
  { P::kMachineEndsTasks } -> std::convertible_to<bool>;
  { P::spawn(options, body) } -> std::same_as<typename P::thread>;
  { P::this_cpu() } -> std::convertible_to<unsigned>;
  { P::nr_cpus() } -> std::convertible_to<unsigned>;
  { P::hz() } -> std::convertible_to<unsigned>;
  { P::now_ns() } -> std::convertible_to<std::uint64_t>;
  { P::jiffies() } -> std::convertible_to<std::uint64_t>;
  { P::random_below(n) } -> std::convertible_to<std::uint64_t>;
  P::charge(cost, n);
  P::sleep_ns(n);
  P::sleep_jiffies(n);
  P::yield();
};

/// Holds a lock for a scope.
template <class Lock>
class [[nodiscard]] Guard {
 public:
  explicit Guard(Lock& lock) : lock_(lock) { lock_.lock(); }
  ~Guard() { lock_.unlock(); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  Lock& lock_;
};

}  // namespace mqlab::platform
