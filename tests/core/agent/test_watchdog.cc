#include <doctest/doctest.h>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "agent/watchdog.h"

namespace mqlab::agent {

using std::chrono::milliseconds;

TEST_CASE("a watchdog reports once when its limit has passed") {
  std::atomic<int> reports{0};
  {
    const Watchdog dog(milliseconds(1), [&reports] { ++reports; });
    while (reports == 0) std::this_thread::sleep_for(milliseconds(1));
  }
  CHECK(reports == 1);
}

TEST_CASE("a watchdog that is disarmed in time reports nothing") {
  std::atomic<int> reports{0};
  {
    const Watchdog dog(milliseconds(600000), [&reports] { ++reports; });
  }
  {
    const Watchdog none(milliseconds(0), [&reports] { ++reports; });
  }
  CHECK(reports == 0);
}

TEST_CASE("blocked tasks are told with the kernel functions they sleep in") {
  namespace fs = std::filesystem;
  const fs::path proc = fs::temp_directory_path() / ("mqlab-proc-" + std::to_string(getpid()));
  const auto add = [&proc](const std::string& pid, const std::string& stat, const std::string& stack) {
    const fs::path task = proc / pid / "task" / pid;
    fs::create_directories(task);
    std::ofstream(task / "stat") << stat;
    if (!stack.empty()) std::ofstream(task / "stack") << stack;
    std::ofstream(task / "wchan") << "only_wchan";
  };
  add("7", "7 (a) D) D 1 2 3", "[<0>] inner+0x1/0x2\n[<0>] outer+0x3/0x4\n");
  add("8", "8 (sleeper) S 1 2 3", "[<0>] never+0x1/0x2\n");
  add("9", "9 (bare) D 1 2 3", "");
  const std::string lines = blocked_tasks(proc.string());
  fs::remove_all(proc);
  CHECK(lines.find("7 (a) D) in inner < outer\n") != std::string::npos);
  CHECK(lines.find("9 (bare) in only_wchan\n") != std::string::npos);
  CHECK(lines.find("sleeper") == std::string::npos);
  CHECK(blocked_tasks("/nonexistent").empty());
}

}  // namespace mqlab::agent
