// Ends a guest whose jobs hang, and says who hangs where.
//
// The limit counts in the guest's own time: where that skips idle time, a guest that waits for ever is there in
// seconds. A guest whose CPUs spin with interrupts off is beyond it and left to the host.
//
// Thread safety: made and destroyed by one thread; `on_limit` runs in a thread of the watchdog's own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace mqlab::agent {

class Watchdog {
 public:
  // A limit of zero watches nothing.
  Watchdog(std::chrono::milliseconds limit, std::function<void()> on_limit);
  ~Watchdog();  // disarms it; waits for an on_limit under way
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  Watchdog(Watchdog&&) = delete;
  Watchdog& operator=(Watchdog&&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool disarmed_ = false;
  std::thread thread_;
};

// A line for each task that sleeps uninterruptibly: name, id, and the kernel functions that it is in, as far as
// `proc` tells.
std::string blocked_tasks(const std::string& proc = "/proc");

}  // namespace mqlab::agent
