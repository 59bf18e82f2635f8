#include "platform/sim/machine.h"

#include <algorithm>
#include <utility>

#include "base/cancel.h"
#include "base/error.h"

namespace mqlab::sim {
namespace {

using platform::Cost;

thread_local Machine* current_machine = nullptr;

}  // namespace

Task::Task(Machine& machine, std::string name, std::function<void()> body)
    : name_(std::move(name)), fiber_(machine.host_, std::move(body)) {}

Machine::Machine(const MachineConfig& config)
    : config_(config),
      tick_ns_(1'000'000'000ULL / config.hz),
      random_(config.seed),
      tick_order_(random_.split()),
      cost_noise_(random_.split()),
      spread_64ths_(static_cast<std::uint64_t>(config.cost_spread * 64)),
      lanes_(config.lanes == 0 ? config.cpus : std::min(config.lanes, config.cpus)),
      cpus_(config.cpus),
      ready_(lanes_.size()) {
  for (unsigned i = 0; i < cpus_.size(); ++i) {
    cpus_[i].id = i;
    cpus_[i].lane = i % static_cast<unsigned>(lanes_.size());
  }
}

Machine::~Machine() = default;

Machine& Machine::current() {
  if (current_machine == nullptr) throw Error(ErrorKind::kInternal, "no simulated machine runs on this thread");
  return *current_machine;
}

TimeNs Machine::spread(TimeNs ns) {
  const std::uint64_t width = ns * spread_64ths_ / 32;
  return ns - width / 2 + cost_noise_.below(width + 1);
}

Machine::Lane& Machine::lane_of(const Cpu& cpu) { return lanes_[cpu.lane]; }

unsigned Machine::this_cpu() const { return cpu_ != nullptr ? cpu_->id : 0; }

bool Machine::cpu_idle(unsigned cpu) const { return cpus_[cpu].running == nullptr && cpus_[cpu].queue.empty(); }

void Machine::hold_tick(unsigned cpu, bool held) { cpus_[cpu].tick_held = held; }

std::uint64_t Machine::cpu_switches(unsigned cpu) const { return cpus_[cpu].switches; }

void Machine::run(std::function<void()> root) {
  Machine* const outer = std::exchange(current_machine, this);
  spawn({.name = "root"}, std::move(root));
  try {
    loop();
  } catch (...) {
    failure_ = std::current_exception();
  }
  unwind();
  current_machine = outer;
  if (failure_) std::rethrow_exception(failure_);
}

void Machine::loop() {
  while (unfinished_ > 0 && !failure_) {
    if (!step()) report_deadlock();
    if ((++steps_ & 0xfff) == 0) throw_if_cancelled();
  }
}

bool Machine::step() {
  const TimeNs timer_ns = next_timer_ns();
  if (!ready_.empty() && ready_.top_key() < timer_ns) {
    run_lane(lanes_[ready_.top()]);
    return true;
  }
  if (timer_ns == kNever) return false;
  fire_timers(timer_ns);
  return true;
}

void Machine::interrupt(unsigned cpu, std::function<void()> handler) {
  Lane& lane = lane_of(cpus_[cpu]);
  lane.interrupts.emplace_back(&cpus_[cpu], std::move(handler));
  lane.interrupt_ns = std::min(lane.interrupt_ns, now_ns());
  if (&lane == lane_) {
    horizon_ns_ = 0;  // it is executing: handled at its next scheduling point
    return;
  }
  put_ready(cpus_[cpu].lane);
}

void Machine::put_ready(unsigned lane) {
  const Lane& seen = lanes_[lane];
  const TimeNs key = seen.active.empty() ? seen.interrupt_ns : std::min(seen.clock_ns, seen.interrupt_ns);
  ready_.put(lane, key);
  horizon_ns_ = std::min(horizon_ns_, key);
}

void Machine::activate(Cpu& cpu) {
  Lane& lane = lane_of(cpu);
  if (lane.active.empty()) lane.clock_ns = std::max(lane.clock_ns, now_ns());
  if (!cpu.active) {
    cpu.active = true;
    lane.active.push_back(&cpu);
  }
  if (&lane != lane_) put_ready(cpu.lane);  // an executing lane looks for itself
}

TimeNs Machine::horizon(const Lane& lane) const {
  TimeNs limit = ready_.empty() ? kNever : ready_.top_key();
  if (!timers_.empty()) limit = std::min(limit, timers_.front().when_ns);
  const Cpu& cpu = *lane.active.front();
  if (!cpu.queue.empty() && cpu.running->preempt_disabled_ == 0 &&
      cpu.queue.front()->priority() >= cpu.running->priority())
    limit = std::min(limit, cpu.running->slice_start_ns_ + config_.slice_ns);
  if (lane.active.size() > 1) limit = std::min(limit, lane.cpu_since_ns + config_.lane_slice_ns);
  return limit;
}

void Machine::run_lane(Lane& lane) {
  ready_.remove(ready_.top());
  lane_ = &lane;
  if (!lane.interrupts.empty()) {
    run_interrupts(lane);
  } else {
    cpu_ = lane.active.front();
    Cpu& cpu = *cpu_;
    if (cpu.running == nullptr && !cpu.queue.empty()) {
      dispatch(cpu);
    } else if (cpu.running != nullptr && cpu.running->state_ == Task::State::kRunning) {
      run_task(cpu, *cpu.running);
    } else {
      cpu.active = false;
      cpu.idle_since_ns = lane.clock_ns;
      cpu.idled = cpu.running == nullptr;
      lane.active.pop_front();
      lane.cpu_since_ns = lane.clock_ns;
    }
  }
  now_ns_ = lane.clock_ns;
  lane_ = nullptr;
  cpu_ = nullptr;
  requeue(lane);
}

void Machine::requeue(Lane& lane) {
  if (lane.active.empty() && lane.interrupts.empty()) return;
  if (lane.active.size() > 1 && lane.clock_ns - lane.cpu_since_ns >= config_.lane_slice_ns) {
    lane.active.push_back(lane.active.front());
    lane.active.pop_front();
    lane.cpu_since_ns = lane.clock_ns;
  }
  put_ready(static_cast<unsigned>(&lane - lanes_.data()));
}

void Machine::run_interrupts(Lane& lane) {
  // Handled at its own time: if the lane is in the middle of a charge, that charge ends later by what this takes.
  const TimeNs resume_ns = lane.active.empty() ? 0 : lane.clock_ns;
  const TimeNs begin_ns = lane.interrupt_ns;
  lane.clock_ns = begin_ns;
  lane.interrupt_ns = kNever;
  const Cpu* entered = nullptr;
  for (auto pending = std::exchange(lane.interrupts, {}); auto& [cpu, handler] : pending) {
    cpu_ = cpu;
    if (cpu != entered) advance(config_.costs[platform::index(Cost::kInterrupt)]);
    entered = cpu;
    handler();
  }
  if (resume_ns > begin_ns) resume_charge(lane, resume_ns - begin_ns);
}

/// The work that the interrupt came into: it goes on, or is owed by a task that has to give way.
void Machine::resume_charge(Lane& lane, TimeNs left_ns) {
  Cpu& cpu = *lane.active.front();
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

Cpu& Machine::select_cpu(const Task& task) {
  if (task.pinned_ || cpu_idle(task.cpu_)) return cpus_[task.cpu_];
  const unsigned count = nr_cpus();
  for (unsigned i = 1; i < count; ++i)
    if (const unsigned candidate = (task.cpu_ + i) % count; cpu_idle(candidate)) return cpus_[candidate];
  return cpus_[task.cpu_];
}

void Machine::report_deadlock() const {
  std::string message = "deadlock: every task sleeps and no timer is armed";
  for (const auto& task : tasks_)
    if (task->state_ != Task::State::kFinished && !task->daemon_)
      message += "; " + task->name_ + " waits for " + (task->waits_for_ != nullptr ? task->waits_for_ : "?");
  throw Error(ErrorKind::kViolation, message + " (seed " + std::to_string(config_.seed) + ")");
}

}  // namespace mqlab::sim
