// Timers of the simulated machine: armed, cancelled, and fired at their tick or the one after it.
#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "platform/sim/machine.h"

namespace mqlab::sim {

Timer::Timer(Machine& machine, std::function<void()> expired) : machine_(machine), expired_(std::move(expired)) {}

void Timer::arm_at(TimeNs when_ns) {
  armed_ = true;
  by_jiffies_ = false;
  ++generation_;
  machine_.timers_.push_back({when_ns, machine_.timer_order_++, this, generation_});
  std::push_heap(machine_.timers_.begin(), machine_.timers_.end(), std::greater<>{});
  machine_.horizon_ns_ = std::min(machine_.horizon_ns_, when_ns);
}

void Timer::arm_jiffies(std::uint64_t delay) {
  arm_at(machine_.jiffy_time_ns(machine_.jiffies() + delay + 1));
  by_jiffies_ = true;
}

bool Timer::cancel() {
  const bool was_armed = armed_;
  const bool was_firing = firing_ && std::exchange(*firing_, false);
  armed_ = false;
  if (was_armed) {
    // The entry must not keep a pointer to a timer that may be gone.
    std::erase_if(machine_.timers_, [this](const auto& pending) { return pending.timer == this; });
    std::make_heap(machine_.timers_.begin(), machine_.timers_.end(), std::greater<>{});
  }
  return was_armed || was_firing;
}

TimeNs Machine::next_timer_ns() { return timers_.empty() ? kNever : timers_.front().when_ns; }

void Machine::fire_timers(TimeNs when_ns) {
  now_ns_ = when_ns;
  while (!timers_.empty() && timers_.front().when_ns <= when_ns) {
    std::pop_heap(timers_.begin(), timers_.end(), std::greater<>{});
    const PendingTimer pending = timers_.back();
    timers_.pop_back();
    if (!pending.timer->armed_ || pending.generation != pending.timer->generation_) continue;
    if (pending.timer->by_jiffies_ && seen_too_early(*pending.timer)) {
      pending.timer->arm_at(when_ns + tick_ns_);
      continue;
    }
    pending.timer->armed_ = false;
    // The interrupt may have to wait for its lane; until it is handled the timer can still be cancelled, or go away.
    const auto firing = std::make_shared<bool>(true);
    pending.timer->firing_ = firing;
    interrupt(pending.timer->cpu_, [firing, expired = pending.timer->expired_] {
      if (std::exchange(*firing, false)) expired();
    });
  }
}

bool Machine::ticks(unsigned cpu) const {
  if (cpus_[cpu].tick_held || !cpu_idle(cpu)) return true;
  return config_.idle_keeps_tick && cpus_[cpu].switches > 0 && now_ns() - cpus_[cpu].idle_since_ns < tick_ns_;
}

bool Machine::seen_too_early(const Timer& timer) {
  unsigned handler = timer.cpu_;
  for (unsigned i = 0; i < nr_cpus() && !ticks(handler); ++i) handler = i;
  if (!ticks(handler)) return false;  // all idle: the timer's own CPU wakes up and brings jiffies up to date
  for (unsigned i = 0; i < nr_cpus() && !ticks(jiffies_cpu_); ++i) jiffies_cpu_ = i;
  return handler != jiffies_cpu_ && tick_order_.below(2) == 0;
}

}  // namespace mqlab::sim
