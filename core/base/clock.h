// The clock of all timings: monotonic, in whole nanoseconds. In a guest whose clock counts instructions two boots read
// the same values.
#pragma once

#include <chrono>
#include <cstdint>

namespace mqlab {

inline std::uint64_t monotonic_ns() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace mqlab
