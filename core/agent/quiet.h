// Waiting until a machine is idle.
//
// A stock kernel goes on with its own work for seconds after init has started (self-tests of the crypto
// layer, asynchronous probes); figures taken then are several times too high. In a guest whose clock counts
// instructions idle time costs no wall time, so waiting is cheap.
//
// Thread safety: functions without state.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace mqlab::agent {

// Summed over all CPUs, in the kernel's units of /proc/stat.
struct CpuTimes {
  std::uint64_t idle = 0;
  std::uint64_t total = 0;
};

// Reads the first line of /proc/stat; nothing when it has another form.
std::optional<CpuTimes> parse_cpu_times(std::string_view proc_stat);

struct QuietOptions {
  std::chrono::milliseconds window{200};
  double idle_share = 0.98;  // of a window
  unsigned windows = 5;      // in a row
  std::chrono::milliseconds limit{60000};
};

struct QuietOutcome {
  bool quiet = false;
  std::chrono::nanoseconds waited{0};
  double idle_share = 0.0;  // of the last window
};

// What the wait looks at and how it passes time: replaced in tests.
struct QuietMachine {
  std::function<std::string()> read_proc_stat;
  std::function<void(std::chrono::milliseconds)> sleep;
  std::function<std::chrono::nanoseconds()> now;
};

QuietMachine this_machine();

// Ends when enough windows in a row were idle, or at the limit.
QuietOutcome wait_until_quiet(const QuietOptions& options, const QuietMachine& machine);

}  // namespace mqlab::agent
