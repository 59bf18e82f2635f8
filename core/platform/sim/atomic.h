// An atomic of the simulated machine: every operation is a scheduling point and costs what the line's last owner says.
// On a line that this CPU touched last, plain loads and stores cost nothing of their own (they are part of the code
// around them), read-modify-writes and sequentially consistent stores cost a locked instruction.
//
// Operations are sequentially consistent in virtual time; the memory order given is accepted and not weakened.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "platform/cost.h"
#include "platform/sim/machine.h"

namespace mqlab::sim {

template <class T>
class Atomic {
 public:
  Atomic() = default;
  Atomic(T value) : value_(value) {}  // NOLINT(google-explicit-constructor): as std::atomic
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(std::memory_order = std::memory_order_seq_cst) const {
    touch(Access::kLoad);
    return value_;
  }
  void store(T value, std::memory_order order = std::memory_order_seq_cst) {
    touch(order == std::memory_order_seq_cst ? Access::kLocked : Access::kStore);
    value_ = value;
  }
  T exchange(T value, std::memory_order = std::memory_order_seq_cst) {
    touch(Access::kLocked);
    return std::exchange(value_, value);
  }
  T fetch_add(T value, std::memory_order = std::memory_order_seq_cst) {
    touch(Access::kLocked);
    return std::exchange(value_, static_cast<T>(value_ + value));
  }
  T fetch_sub(T value, std::memory_order = std::memory_order_seq_cst) {
    touch(Access::kLocked);
    return std::exchange(value_, static_cast<T>(value_ - value));
  }
  T fetch_or(T value, std::memory_order = std::memory_order_seq_cst) {
    touch(Access::kLocked);
    return std::exchange(value_, static_cast<T>(value_ | value));
  }
  T fetch_and(T value, std::memory_order = std::memory_order_seq_cst) {
    touch(Access::kLocked);
    return std::exchange(value_, static_cast<T>(value_ & value));
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order = std::memory_order_seq_cst,
                               std::memory_order = std::memory_order_seq_cst) {
    touch(Access::kLocked);
    if (value_ == expected) {
      value_ = desired;
      return true;
    }
    expected = value_;
    return false;
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order success = std::memory_order_seq_cst,
                             std::memory_order failure = std::memory_order_seq_cst) {
    return compare_exchange_strong(expected, desired, success, failure);
  }

 private:
  enum class Access : std::uint8_t { kLoad, kStore, kLocked };

  // The line belongs to the CPU that touched it last; until somebody writes, it is everybody's.
  void touch(Access access) const {
    Machine& machine = Machine::current();
    if (owner_ != kNobody && owner_ != machine.this_cpu())
      machine.charge(platform::Cost::kCachelineTransfer);
    else if (access == Access::kLocked)
      machine.charge(platform::Cost::kAtomicLocal);
    else
      machine.advance(0);
    // The task may have moved at the scheduling point; the access happens where it is now.
    if (access != Access::kLoad || owner_ != kNobody) owner_ = static_cast<std::uint16_t>(machine.this_cpu());
  }

  static constexpr std::uint16_t kNobody = 0xffff;
  T value_{};
  mutable std::uint16_t owner_ = kNobody;
};

}  // namespace mqlab::sim
