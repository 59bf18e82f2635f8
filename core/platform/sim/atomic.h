// An atomic of the simulated machine: every operation is a scheduling point and costs what the line's last owner says.
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
    touch(false);
    return value_;
  }
  void store(T value, std::memory_order = std::memory_order_seq_cst) {
    touch(true);
    value_ = value;
  }
  T exchange(T value, std::memory_order = std::memory_order_seq_cst) {
    touch(true);
    return std::exchange(value_, value);
  }
  T fetch_add(T value, std::memory_order = std::memory_order_seq_cst) {
    touch(true);
    return std::exchange(value_, static_cast<T>(value_ + value));
  }
  T fetch_sub(T value, std::memory_order = std::memory_order_seq_cst) {
    touch(true);
    return std::exchange(value_, static_cast<T>(value_ - value));
  }
  T fetch_or(T value, std::memory_order = std::memory_order_seq_cst) {
    touch(true);
    return std::exchange(value_, static_cast<T>(value_ | value));
  }
  T fetch_and(T value, std::memory_order = std::memory_order_seq_cst) {
    touch(true);
    return std::exchange(value_, static_cast<T>(value_ & value));
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order = std::memory_order_seq_cst,
                               std::memory_order = std::memory_order_seq_cst) {
    touch(true);
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
  // The line belongs to the CPU that touched it last; until somebody writes, it is everybody's.
  void touch(bool write) const {
    Machine& machine = Machine::current();
    const bool local = owner_ == kNobody || owner_ == machine.this_cpu();
    machine.charge(local ? platform::Cost::kAtomicLocal : platform::Cost::kCachelineTransfer);
    // The task may have moved at the scheduling point; the access happens where it is now.
    if (write || owner_ != kNobody) owner_ = static_cast<std::uint16_t>(machine.this_cpu());
  }

  static constexpr std::uint16_t kNobody = 0xffff;
  T value_{};
  mutable std::uint16_t owner_ = kNobody;
};

}  // namespace mqlab::sim
