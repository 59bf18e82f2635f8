#include "workloads/irq_thread_log.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "devices/task_stack.h"

namespace mqlab::workloads {
namespace {

constexpr std::size_t kFramesTold = 5;
constexpr std::size_t kPathsTold = 3;

std::string joined(std::span<const std::string> functions) {
  std::string text;
  for (const std::string& function : functions) text += (text.empty() ? "" : " < ") + function;
  return text;
}

void count_each(const std::set<std::string>& names, std::map<std::string, std::uint64_t>& counts) {
  for (const std::string& name : names) ++counts[name];
}

}  // namespace

void IrqThreadLog::add(const std::vector<devices::IrqThreadState>& look) {
  std::uint64_t waiting = 0;
  std::set<std::string> locks;
  std::set<std::string> sites;
  for (const devices::IrqThreadState& thread : look) {
    ++states_[thread.state];
    if (thread.state != 'D') continue;
    ++waiting;
    const std::vector<std::string> path = devices::wait_path(thread.stack);
    const auto told = std::span(path).first(std::min(devices::telling_part(path), kFramesTold));
    if (told.empty()) continue;
    locks.insert(told.front());
    sites.insert(told.begin(), told.end());
    ++paths_[joined(told)];
  }
  in_d_.push_back(waiting);
  count_each(locks, locks_);
  count_each(sites, sites_);
}

Json IrqThreadLog::counters() const {
  const auto most = std::ranges::max_element(in_d_);
  Json counters = {{"looks", in_d_.size()}, {"irq_threads_in_d_max", most == in_d_.end() ? 0 : *most}};
  for (const auto& [state, times] : states_) counters[std::string("state:") + state] = times;
  for (const auto& [name, looks] : locks_) counters["lock:" + name] = looks;
  for (const auto& [name, looks] : sites_) counters["wait_in:" + name] = looks;
  return counters;
}

Json IrqThreadLog::commonest_waits() const {
  std::vector<std::pair<std::uint64_t, std::string>> ranked;
  for (const auto& [path, times] : paths_) ranked.emplace_back(times, path);
  std::ranges::sort(ranked, [](const auto& a, const auto& b) { return a.first > b.first; });
  Json notes = Json::array();
  for (const auto& [times, path] : std::span(ranked).first(std::min(ranked.size(), kPathsTold))) {
    notes.push_back("irq threads waited " + std::to_string(times) + " times in " + path);
  }
  return notes;
}

}  // namespace mqlab::workloads
