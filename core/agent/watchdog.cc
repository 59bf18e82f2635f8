#include "agent/watchdog.h"

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/text_file.h"

namespace mqlab::agent {
namespace {

namespace fs = std::filesystem;

// "PID (NAME) STATE ...", where the name may hold anything.
bool sleeps_uninterruptibly(const std::string& stat) {
  const std::size_t end = stat.rfind(')');
  return end != std::string::npos && stat.substr(end, 3) == ") D";
}

// The stack as "inner < outer < ...", or the one function of wchan where the kernel keeps no stacks.
std::string place_of(const fs::path& task) {
  std::ifstream stack(task / "stack");
  std::string place;
  for (std::string line; std::getline(stack, line);) {
    // "[<0>] function+0x12/0x34"
    const std::size_t begin = line.find("] ");
    if (begin == std::string::npos) continue;
    const std::string name = line.substr(begin + 2, line.find('+') - begin - 2);
    place += (place.empty() ? "" : " < ") + name;
  }
  return place.empty() ? text_of(task / "wchan") : place;
}

}  // namespace

Watchdog::Watchdog(std::chrono::milliseconds limit, std::function<void()> on_limit) {
  if (limit.count() <= 0) return;
  thread_ = std::thread([this, limit, report = std::move(on_limit)] {
    std::unique_lock lock(mutex_);
    if (!ended_.wait_for(lock, limit, [this] { return disarmed_; })) report();
  });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    disarmed_ = true;
  }
  ended_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::string blocked_tasks(const std::string& proc) {
  std::string lines;
  std::error_code gone;  // tasks end while they are looked at
  for (const fs::directory_entry& process : fs::directory_iterator(proc, gone)) {
    const fs::path tasks = process.path() / "task";
    if (!fs::is_directory(tasks, gone)) continue;
    for (const fs::directory_entry& task : fs::directory_iterator(tasks, gone)) {
      const std::string stat = text_of(task.path() / "stat");
      if (!sleeps_uninterruptibly(stat)) continue;
      lines += stat.substr(0, stat.rfind(')') + 1) + " in " + place_of(task.path()) + '\n';
    }
  }
  return lines;
}

}  // namespace mqlab::agent
