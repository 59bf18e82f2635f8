#include "devices/task_stack.h"

#include <algorithm>
#include <array>

namespace mqlab::devices {
namespace {

// Beginnings of the names of those who only do the waiting.
constexpr std::array<std::string_view, 17> kWaiting = {"__schedule",
                                                       "schedule",
                                                       "preempt_schedule",
                                                       "io_schedule",
                                                       "rt_spin_lock",
                                                       "rt_read_lock",
                                                       "rt_write_lock",
                                                       "rtlock_",
                                                       "__rtlock_",
                                                       "rt_mutex_",
                                                       "__rt_mutex_",
                                                       "mutex_lock",
                                                       "__mutex_lock",
                                                       "_raw_",
                                                       "__raw_",
                                                       "spin_lock",
                                                       "task_blocks_on_rt_mutex"};
// Where the part begins that every irq thread has.
constexpr std::array<std::string_view, 4> kThreadEntry = {"irq_forced_thread_fn", "irq_thread_fn", "irq_thread",
                                                          "kthread"};

bool begins_with_one_of(const std::string& name, const auto& beginnings) {
  return std::ranges::any_of(beginnings, [&](std::string_view beginning) { return name.starts_with(beginning); });
}

// "[<0>] name.isra.0+0x12/0x34 [module]"
std::string function_of(std::string_view line) {
  const std::size_t mark = line.find("] ");
  if (!line.starts_with("[<") || mark == std::string_view::npos) return {};
  line.remove_prefix(mark + 2);
  const std::size_t end = line.find_first_of("+. ");
  return std::string(line.substr(0, end));
}

}  // namespace

std::vector<std::string> parse_stack(std::string_view text) {
  std::vector<std::string> functions;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string function = function_of(text.substr(0, end));
    if (!function.empty()) functions.push_back(std::move(function));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return functions;
}

std::vector<std::string> wait_path(const std::vector<std::string>& stack) {
  const auto begin =
      std::ranges::find_if_not(stack, [](const std::string& name) { return begins_with_one_of(name, kWaiting); });
  return {begin, stack.end()};
}

std::size_t telling_part(const std::vector<std::string>& path) {
  const auto end =
      std::ranges::find_if(path, [](const std::string& name) { return std::ranges::count(kThreadEntry, name) > 0; });
  return static_cast<std::size_t>(end - path.begin());
}

}  // namespace mqlab::devices
