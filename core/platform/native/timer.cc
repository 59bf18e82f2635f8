#include "platform/native/timer.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace mqlab::native {

std::uint64_t now_ns() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

struct Timer::State {
  std::function<void()> expired;
  std::uint64_t due_ns = 0;
  bool armed = false;
  bool running = false;
};

namespace {

constexpr std::uint64_t kTickNs = 1'000'000'000ULL / kHz;

class Wheel {
 public:
  using Handle = std::shared_ptr<Timer::State>;

  static Wheel& instance() {
    // Never destroyed: its thread may be waiting in it when the process ends.
    static auto* const wheel = new Wheel;
    return *wheel;
  }

  void arm(const Handle& timer, std::uint64_t due_ns) {
    const std::lock_guard guard(mutex_);
    disarm(timer);
    timer->armed = true;
    timer->due_ns = due_ns;
    due_.emplace(due_ns, timer);
    changed_.notify_all();
  }

  bool cancel(const Handle& timer) {
    std::unique_lock guard(mutex_);
    const bool was_armed = disarm(timer);
    if (std::this_thread::get_id() != server_) ran_.wait(guard, [&] { return !timer->running; });
    return was_armed;
  }

  bool armed(const Handle& timer) {
    const std::lock_guard guard(mutex_);
    return timer->armed;
  }

 private:
  Wheel() {
    std::thread thread([this] { serve(); });
    server_ = thread.get_id();
    thread.detach();
  }

  bool disarm(const Handle& timer) {
    if (!std::exchange(timer->armed, false)) return false;
    const auto [first, last] = due_.equal_range(timer->due_ns);
    for (auto it = first; it != last; ++it) {
      if (it->second != timer) continue;
      due_.erase(it);
      break;
    }
    return true;
  }

  [[noreturn]] void serve() {
    std::unique_lock guard(mutex_);
    for (;;) {
      if (due_.empty()) {
        changed_.wait(guard);
        continue;
      }
      const std::uint64_t now = now_ns();
      if (due_.begin()->first > now) {
        changed_.wait_for(guard, std::chrono::nanoseconds(due_.begin()->first - now));
        continue;
      }
      const Handle timer = due_.begin()->second;
      due_.erase(due_.begin());
      timer->armed = false;
      timer->running = true;
      guard.unlock();
      timer->expired();
      guard.lock();
      timer->running = false;
      ran_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable ran_;
  std::multimap<std::uint64_t, Handle> due_;
  std::thread::id server_;
};

}  // namespace

Timer::Timer(std::function<void()> expired) : state_(std::make_shared<State>()) {
  state_->expired = std::move(expired);
}

Timer::~Timer() { cancel(); }

void Timer::arm_jiffies(std::uint64_t delay) { Wheel::instance().arm(state_, (jiffies() + delay + 1) * kTickNs); }

bool Timer::cancel() { return Wheel::instance().cancel(state_); }

bool Timer::armed() const { return Wheel::instance().armed(state_); }

}  // namespace mqlab::native
