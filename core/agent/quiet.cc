#include "agent/quiet.h"

#include <array>
#include <charconv>
#include <thread>

#include "base/error.h"
#include "base/text_file.h"

namespace mqlab::agent {
namespace {

CpuTimes read_times(const QuietMachine& machine) {
  const auto times = parse_cpu_times(machine.read_proc_stat());
  if (!times) {
    throw Error(ErrorKind::kUnsupported, "/proc/stat has no line of CPU times", "mount proc on /proc");
  }
  return *times;
}

double idle_share_between(const CpuTimes& before, const CpuTimes& after) {
  // A window shorter than the kernel's unit moves nothing: nobody used a CPU.
  if (after.total <= before.total) return 1.0;
  return static_cast<double>(after.idle - before.idle) / static_cast<double>(after.total - before.total);
}

}  // namespace

std::optional<CpuTimes> parse_cpu_times(std::string_view proc_stat) {
  constexpr std::string_view kHead = "cpu ";
  if (proc_stat.substr(0, kHead.size()) != kHead) return std::nullopt;
  // user nice system idle iowait irq softirq steal; guest times are part of user and left out.
  std::array<std::uint64_t, 8> fields{};
  const char* at = proc_stat.data() + kHead.size();
  const char* const end = proc_stat.data() + proc_stat.size();
  for (std::uint64_t& field : fields) {
    while (at != end && *at == ' ') ++at;
    const auto [next, error] = std::from_chars(at, end, field);
    if (error != std::errc()) return std::nullopt;
    at = next;
  }
  CpuTimes times;
  for (const std::uint64_t field : fields) times.total += field;
  times.idle = fields[3] + fields[4];
  return times;
}

QuietMachine this_machine() {
  return {[] { return text_of("/proc/stat"); },
          [](std::chrono::milliseconds time) { std::this_thread::sleep_for(time); },
          [] {
            return std::chrono::duration_cast<std::chrono::nanoseconds>(
                std::chrono::steady_clock::now().time_since_epoch());
          }};
}

QuietOutcome wait_until_quiet(const QuietOptions& options, const QuietMachine& machine) {
  QuietOutcome outcome;
  const auto begin = machine.now();
  unsigned in_a_row = 0;
  CpuTimes before = read_times(machine);
  while (in_a_row < options.windows && outcome.waited < options.limit) {
    machine.sleep(options.window);
    const CpuTimes after = read_times(machine);
    outcome.idle_share = idle_share_between(before, after);
    in_a_row = outcome.idle_share >= options.idle_share ? in_a_row + 1 : 0;
    before = after;
    outcome.waited = machine.now() - begin;
  }
  outcome.quiet = in_a_row >= options.windows;
  return outcome;
}

}  // namespace mqlab::agent
