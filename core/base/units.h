// Units, so that a conversion is written once. A variable carries its unit last in its name: latency_ns,
// size_bytes.
#pragma once

#include <cstdint>

namespace mqlab {

inline constexpr std::uint64_t kNsPerUs = 1'000;
inline constexpr std::uint64_t kNsPerMs = 1'000'000;
inline constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

inline constexpr std::uint64_t kBytesPerKib = 1'024;
inline constexpr std::uint64_t kBytesPerMb = 1'000'000;

constexpr double us_from_ns(std::uint64_t time_ns) noexcept { return static_cast<double>(time_ns) / 1e3; }
constexpr double ms_from_ns(std::uint64_t time_ns) noexcept { return static_cast<double>(time_ns) / 1e6; }
constexpr double seconds_from_ns(std::uint64_t time_ns) noexcept { return static_cast<double>(time_ns) / 1e9; }

// Events a second; 0 when no time passed.
constexpr double per_second(std::uint64_t count, std::uint64_t elapsed_ns) noexcept {
  return elapsed_ns == 0 ? 0.0 : static_cast<double>(count) / seconds_from_ns(elapsed_ns);
}

// Decimal megabytes a second, the unit that fio calls MB/s; 0 when no time passed.
constexpr double mb_per_second(std::uint64_t bytes, std::uint64_t elapsed_ns) noexcept {
  return per_second(bytes, elapsed_ns) / static_cast<double>(kBytesPerMb);
}

}  // namespace mqlab
