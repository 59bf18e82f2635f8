// Timers of the simulated machine: armed, cancelled, and fired at their tick or the one after it.
#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "platform/sim/machine.h"

namespace mqlab::sim {

Timer::Timer(Machine& machine, std::function<void()> expired) : machine_(machine), expired_(std::move(expired)) {}

void Timer::push(TimeNs when_ns, std::uint64_t order) {
  armed_ = true;
  by_jiffies_ = false;
  overdue_ = false;
  watches_ticks_ = false;
  ++generation_;
  machine_.timers_.push_back({when_ns, order, this, generation_});
  std::push_heap(machine_.timers_.begin(), machine_.timers_.end(), std::greater<>{});
  machine_.horizon_ns_ = std::min(machine_.horizon_ns_, when_ns);
}

void Timer::arm_at(TimeNs when_ns) { push(when_ns, machine_.timer_order_++); }

void Timer::arm_jiffies(std::uint64_t delay) {
  arm_at(machine_.jiffy_time_ns(machine_.jiffies() + delay + 1));
  by_jiffies_ = true;
}

void Timer::arm_tick() {
  constexpr std::uint64_t kAfterAllOthers = std::uint64_t{1} << 63;
  push(machine_.jiffy_time_ns(machine_.jiffies() + 1), machine_.timer_order_++ | kAfterAllOthers);
  watches_ticks_ = true;
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
  if ((when_ns + config_.tick_phase_ns) % tick_ns_ == 0) begin_tick(when_ns);
  while (!timers_.empty() && timers_.front().when_ns <= when_ns) {
    std::pop_heap(timers_.begin(), timers_.end(), std::greater<>{});
    const PendingTimer pending = timers_.back();
    timers_.pop_back();
    Timer& timer = *pending.timer;
    if (!timer.armed_ || pending.generation != timer.generation_) continue;
    if (timer.watches_ticks_) {
      timer.armed_ = false;
      timer.expired_();
      continue;
    }
    const unsigned handler = handler_of(timer);
    if (timer.by_jiffies_ && !timer.overdue_ && ticks(handler) && ticks_before_jiffies(handler)) {
      timer.push(when_ns + tick_ns_, timer_order_++);
      timer.by_jiffies_ = true;
      timer.overdue_ = true;
      continue;
    }
    timer.armed_ = false;
    // The interrupt may have to wait for its lane; until it is handled the timer can still be cancelled, or go away.
    const auto firing = std::make_shared<bool>(true);
    timer.firing_ = firing;
    interrupt(handler, [firing, expired = timer.expired_] {
      if (std::exchange(*firing, false)) expired();
    });
  }
}

/// An idle CPU's tick goes on until one has found it idle, and then as long as a timer of its own is due at the next.
bool Machine::ticks(unsigned id) const {
  const Cpu& cpu = cpus_[id];
  if (cpu.tick_held || !cpu_idle(id)) return true;
  if (cpu.switches == 0) return false;
  if (now_ns() - cpu.idle_since_ns < tick_ns_) return true;
  const bool found_idle_now = now_ns() - cpu.idle_since_ns < 2 * tick_ns_ || now_ns() - cpu.ticked_ns <= tick_ns_;
  return found_idle_now && cpu.timer_due_ns == now_ns();
}

/// Marks the CPUs that have a jiffy timer due at the tick, from one place in the heap of timers down.
void Machine::mark_due(std::size_t place, TimeNs when_ns) {
  if (place >= timers_.size() || timers_[place].when_ns > when_ns) return;
  const PendingTimer& pending = timers_[place];
  if (pending.timer->by_jiffies_ && pending.generation == pending.timer->generation_)
    cpus_[pending.timer->cpu_].timer_due_ns = when_ns;
  mark_due(2 * place + 1, when_ns);
  mark_due(2 * place + 2, when_ns);
}

/// A new order of the CPUs, and the one that advances jiffies: it keeps that duty until its tick stops.
void Machine::begin_tick(TimeNs when_ns) {
  if (std::exchange(tick_ns_of_order_, when_ns) == when_ns) return;
  tick_order_salt_ = tick_order_();
  mark_due(0, when_ns);
  unsigned ticking = 0;
  for (Cpu& cpu : cpus_) {
    if (!ticks(cpu.id)) continue;
    ++ticking;
    cpu.ticked_ns = when_ns;
  }
  if (ticking == 0) return;
  auto skipped = static_cast<unsigned>(tick_order_.below(ticking));
  for (first_to_tick_ = 0; !ticks(first_to_tick_) || skipped-- > 0;) ++first_to_tick_;
  if (!ticks(jiffies_cpu_)) jiffies_cpu_ = first_to_tick_;
  if (cpus_share_a_lane())
    for (Lane& lane : lanes_) begin_tick_in_turns(lane, when_ns);
}

/// The timer interrupts of an emulator's CPUs end the turn of the one that executes. The first CPU begins its tick and,
/// when it programs its timer again, loses its turn; the others begin theirs when their turn comes.
void Machine::begin_tick_in_turns(Lane& lane, TimeNs when_ns) {
  if (lane.active > 0) lane.cut_ns = std::min(lane.cut_ns, when_ns);
  cut_charge(lane);
  for (Cpu* cpu : lane.cpus) {
    if (!ticks(cpu->id)) continue;
    cpu->tick = Cpu::Tick::kDue;
    interrupt(cpu->id, [] {});
  }
  ticks_begun_ = 0;
  if (const Cpu& first = cpus_[first_to_tick_]; &lane_of(first) == &lane) lane.turn = first.place;
  lane.turn_since_ns = lane.clock_ns;
}

/// Programming a timer ends a CPU's turn if that timer is now the earliest of all: as likely as for each of those
/// before.
bool Machine::loses_turn_in_tick(Cpu& cpu) {
  if (cpu.tick != Cpu::Tick::kDue) return false;
  cpu.tick = Cpu::Tick::kBegun;
  return tick_order_.below(++ticks_begun_) == 0;
}

bool Machine::tick_begins_later(unsigned cpu) const { return cpus_share_a_lane() && cpu != first_to_tick_; }

unsigned Machine::handler_of(const Timer& timer) const {
  // With all of them idle the timer's own CPU wakes up and brings jiffies up to date.
  return timer.by_jiffies_ && !ticks(timer.cpu_) && ticks(jiffies_cpu_) ? jiffies_cpu_ : timer.cpu_;
}

bool Machine::ticks_before_jiffies(unsigned cpu) const {
  if (cpu == jiffies_cpu_) return false;
  const unsigned count = nr_cpus();
  if (cpus_share_a_lane())
    return (cpu + count - first_to_tick_) % count < (jiffies_cpu_ + count - first_to_tick_) % count;
  return ((tick_order_salt_ >> (cpu % 61)) & 1U) != 0;
}

}  // namespace mqlab::sim
