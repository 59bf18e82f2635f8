// Lanes: which CPU executes, what it does next, and how interrupts cut in.
#include <algorithm>
#include <utility>

#include "platform/sim/machine.h"

namespace mqlab::sim {

using platform::Cost;

void Machine::interrupt(unsigned cpu, std::function<void()> handler) {
  Cpu& target = cpus_[cpu];
  Lane& lane = lane_of(target);
  target.interrupts.push_back(std::move(handler));
  if (lane.active > 0) lane.cut_ns = std::min(lane.cut_ns, now_ns());
  activate(target);
  if (&lane == lane_) horizon_ns_ = 0;  // it is executing: handled at its next scheduling point
}

void Machine::put_ready(unsigned lane) {
  const Lane& seen = lanes_[lane];
  const TimeNs key = std::min(seen.clock_ns, seen.cut_ns);
  ready_.put(lane, key);
  horizon_ns_ = std::min(horizon_ns_, key);
}

void Machine::activate(Cpu& cpu) {
  Lane& lane = lane_of(cpu);
  if (lane.active == 0 && &lane != lane_) {
    lane.clock_ns = std::max(lane.clock_ns, now_ns());
    lane.turn = cpu.place;
    lane.turn_since_ns = lane.clock_ns;
  }
  if (!cpu.active) {
    cpu.active = true;
    ++lane.active;
  }
  if (&lane != lane_) put_ready(cpu.lane);  // an executing lane looks for itself
}

void Machine::deactivate(Lane& lane, Cpu& cpu) {
  cpu.active = false;
  --lane.active;
  if (cpu.idle_since_ns == kNever) cpu.idle_since_ns = lane.clock_ns;  // interrupts alone do not end idling
  cpu.idled = cpu.running == nullptr;
}

TimeNs Machine::horizon(const Lane& lane) const {
  TimeNs limit = ready_.empty() ? kNever : ready_.top_key();
  if (!timers_.empty()) limit = std::min(limit, timers_.front().when_ns);
  const Cpu& cpu = *cpu_;
  if (!cpu.queue.empty() && cpu.running->preempt_disabled_ == 0 &&
      cpu.queue.front()->priority() >= cpu.running->priority())
    limit = std::min(limit, cpu.running->slice_start_ns_ + config_.slice_ns);
  if (lane.active > 1) limit = std::min(limit, lane.turn_since_ns + config_.lane_slice_ns);
  return limit;
}

void Machine::run_lane(Lane& lane) {
  ready_.remove(ready_.top());
  lane_ = &lane;
  cut_charge(lane);
  if (!lane.cpus[lane.turn]->active) pass_turn(lane);
  cpu_ = lane.cpus[lane.turn];
  run_cpu(lane, *cpu_);
  now_ns_ = lane.clock_ns;
  lane_ = nullptr;
  cpu_ = nullptr;
  requeue(lane);
}

void Machine::run_cpu(Lane& lane, Cpu& cpu) {
  if (!cpu.interrupts.empty() && loses_turn_in_tick(cpu))
    pass_turn(lane);
  else if (!cpu.interrupts.empty())
    run_interrupts(cpu);
  else if (cpu.owed_ns > 0)
    resume_charge(lane, cpu);
  else if (cpu.running == nullptr && !cpu.queue.empty())
    dispatch(cpu);
  else if (cpu.running != nullptr && cpu.running->state_ == Task::State::kRunning)
    run_task(cpu, *cpu.running);
  else
    deactivate(lane, cpu);
}

/// The next CPU with something to do, in the order of their numbers, as an emulator goes round.
void Machine::pass_turn(Lane& lane) {
  const std::size_t count = lane.cpus.size();
  for (std::size_t i = 1; i <= count; ++i) {
    const std::size_t place = (lane.turn + i) % count;
    if (!lane.cpus[place]->active) continue;
    lane.turn = place;
    break;
  }
  lane.turn_since_ns = lane.clock_ns;
}

void Machine::requeue(Lane& lane) {
  if (lane.active == 0) return;
  if (lane.active > 1 && lane.clock_ns - lane.turn_since_ns >= config_.lane_slice_ns) {
    cut_charge(lane);
    pass_turn(lane);
  }
  put_ready(static_cast<unsigned>(&lane - lanes_.data()));
}

/// What an interrupt came into stops then; what was left of it is owed by its CPU.
void Machine::cut_charge(Lane& lane) {
  if (lane.cut_ns < lane.clock_ns) {
    lane.cpus[lane.turn]->owed_ns += lane.clock_ns - lane.cut_ns;
    lane.clock_ns = lane.cut_ns;
  }
  lane.cut_ns = kNever;
}

void Machine::run_interrupts(Cpu& cpu) {
  const auto pending = std::exchange(cpu.interrupts, {});
  advance(config_.costs[platform::index(Cost::kInterrupt)]);
  for (const auto& handler : pending) handler();
  cpu.tick = Cpu::Tick::kNone;
  cpu.interrupt_end_ns = lane_->clock_ns;
}

/// The work that an interrupt came into goes on, or is owed by a task that has to give way.
void Machine::resume_charge(Lane& lane, Cpu& cpu) {
  const TimeNs left_ns = std::exchange(cpu.owed_ns, 0);
  if (cpu.running != nullptr && cpu.running->state_ == Task::State::kRunning && should_preempt(cpu, *cpu.running)) {
    cpu.running->owed_ns_ += left_ns;
    enqueue(cpu, *std::exchange(cpu.running, nullptr));
    return;
  }
  lane.clock_ns += left_ns;
}

void Machine::dispatch(Cpu& cpu) {
  Task& task = *cpu.queue.front();
  cpu.queue.pop_front();
  cpu.running = &task;
  cpu.idle_since_ns = kNever;
  if (task.state_ == Task::State::kReady) task.state_ = Task::State::kRunning;
  lane_->clock_ns += config_.costs[platform::index(Cost::kContextSwitch)];
  if (std::exchange(cpu.idled, false) && config_.idle_exits)
    lane_->clock_ns += config_.costs[platform::index(Cost::kIdleExit)];
  task.slice_start_ns_ = lane_->clock_ns;
  lane_->clock_ns += std::exchange(task.owed_ns_, 0);
  ++switches_;
  ++cpu.switches;
}

void Machine::run_task(Cpu& cpu, Task& task) {
  horizon_ns_ = horizon(*lane_);
  running_ = &task;
  task.fiber_.resume();
  running_ = nullptr;
  after_task(cpu, task);
}

void Machine::after_task(Cpu& cpu, Task& task) {
  switch (task.state_) {
    case Task::State::kFinished:
      cpu.running = nullptr;
      finish(task);
      break;
    case Task::State::kSleeping:
      cpu.running = nullptr;
      break;
    case Task::State::kSpinning:
      break;
    default:
      if (should_preempt(cpu, task)) {
        if (const TimeNs slice_end = task.slice_start_ns_ + config_.slice_ns; lane_->clock_ns > slice_end) {
          task.owed_ns_ += lane_->clock_ns - slice_end;
          lane_->clock_ns = slice_end;
        }
        cpu.running = nullptr;
        enqueue(cpu, task);
      }
  }
}

bool Machine::should_preempt(const Cpu& cpu, const Task& task) const {
  if (cpu.queue.empty() || task.preempt_disabled_ > 0) return false;
  const Task& next = *cpu.queue.front();
  if (next.priority() != task.priority()) return next.priority() > task.priority();
  return lane_->clock_ns - task.slice_start_ns_ >= config_.slice_ns;
}

void Machine::enqueue(Cpu& cpu, Task& task) {
  task.state_ = Task::State::kReady;
  const auto after = std::find_if(cpu.queue.begin(), cpu.queue.end(),
                                  [&](const Task* other) { return other->priority() < task.priority(); });
  cpu.queue.insert(after, &task);
}

}  // namespace mqlab::sim
