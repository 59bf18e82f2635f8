// Timers of the native platform. One thread serves all of them; it starts with the first and ends with the process.
//
// Thread safety: from any thread. cancel() and the destructor wait for a function that is just running, unless they are
// called by it. The function must not sleep for long: it would hold up all other timers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace mqlab::native {

/// Ticks a second of the native platform. A constant: nothing here runs on ticks, only delays are counted in them.
inline constexpr unsigned kHz = 1000;

std::uint64_t now_ns();
inline std::uint64_t jiffies() { return now_ns() / (1'000'000'000ULL / kHz); }

class Timer {
 public:
  explicit Timer(std::function<void()> expired);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// Fires at the (delay + 1)th tick from now, never before `delay` whole jiffies have passed.
  void arm_jiffies(std::uint64_t delay);
  /// Returns whether it was armed.
  bool cancel();
  bool armed() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace mqlab::native
