// What a task does to itself and to others: begin, block, wake, sleep, change priority, end.
#include <algorithm>
#include <exception>
#include <utility>

#include "base/error.h"
#include "platform/sim/machine.h"

namespace mqlab::sim {
namespace {

using platform::Cost;

/// Thrown through a task's stack when the machine stops before the task has finished.
struct Unwind {};

}  // namespace

Task* Machine::spawn(TaskOptions options, std::function<void()> body) {
  auto guarded = [this, body = std::move(body)] {
    try {
      if (!running_->cancelled_) body();
    } catch (const Unwind&) {
      return;  // the machine stops; nothing of the task is wanted any more
    } catch (...) {
      if (!failure_) failure_ = std::current_exception();
    }
    running_->state_ = Task::State::kFinished;
  };
  tasks_.push_back(std::unique_ptr<Task>(new Task(*this, std::move(options.name), std::move(guarded))));
  Task& task = *tasks_.back();
  task.self_ = std::prev(tasks_.end());
  task.own_priority_ = options.priority;
  task.daemon_ = options.daemon;
  task.pinned_ = options.cpu != kAnyCpu;
  task.cpu_ = task.pinned_ ? static_cast<unsigned>(options.cpu) % nr_cpus() : this_cpu();
  if (!task.daemon_) ++unfinished_;
  Cpu& cpu = select_cpu(task);
  task.cpu_ = cpu.id;
  enqueue(cpu, task);
  activate(cpu);
  return &task;
}

void Machine::join(Task* task) {
  while (task->state_ != Task::State::kFinished) {
    task->joiners_.push_back(running_);
    block("join");
  }
}

void Machine::finish(Task& task) {
  if (!task.daemon_) --unfinished_;
  for (Task* joiner : task.joiners_) wake(joiner);
  task.joiners_.clear();
}

void Machine::leave_fiber() {
  if (!shutting_down_) running_->fiber_.suspend();
  // A scheduling point may stand in a destructor, which must not throw: a stopped task goes on until it would wait, and
  // only one that never waits is ended here.
  constexpr unsigned kPatience = 100'000;
  if (shutting_down_ && ++points_after_stop_ > kPatience && std::uncaught_exceptions() == 0) throw Unwind{};
}

void Machine::stop_if_cancelled() {
  if (shutting_down_ && std::uncaught_exceptions() == 0) throw Unwind{};
}

void Machine::block(const char* waits_for) {
  stop_if_cancelled();
  if (shutting_down_) return;
  Task& task = *running_;
  if (std::exchange(task.wake_pending_, false)) return;
  task.state_ = Task::State::kSleeping;
  task.waits_for_ = waits_for;
  leave_fiber();
  task.waits_for_ = nullptr;
  stop_if_cancelled();
}

void Machine::spin(const char* waits_for) {
  stop_if_cancelled();
  if (shutting_down_) return;
  Task& task = *running_;
  if (std::exchange(task.wake_pending_, false)) return;
  task.state_ = Task::State::kSpinning;
  task.waits_for_ = waits_for;
  leave_fiber();
  task.waits_for_ = nullptr;
  stop_if_cancelled();
}

void Machine::wake(Task* task) {
  if (shutting_down_) return;
  if (task->state_ == Task::State::kSpinning) {
    task->state_ = Task::State::kRunning;
    Cpu& cpu = cpus_[task->cpu_];
    activate(cpu);
    return;
  }
  if (task->state_ != Task::State::kSleeping) {
    task->wake_pending_ = true;
    return;
  }
  advance(config_.costs[platform::index(Cost::kWakeUp)]);
  if (task->state_ != Task::State::kSleeping) return;  // somebody else woke it meanwhile
  Cpu& cpu = select_cpu(*task);
  task->cpu_ = cpu.id;
  enqueue(cpu, *task);
  activate(cpu);
  // A more urgent task on the waker's own CPU runs at the waker's next scheduling point.
  if (cpu.running == nullptr || task->priority() <= cpu.running->priority()) return;
  if (cpu.running == running_)
    horizon_ns_ = 0;
  else if (running_ != nullptr)
    interrupt(cpu.id, [] {});  // the rescheduling interrupt
}

void Machine::yield() {
  stop_if_cancelled();
  // Its slice counts as used up, so that equals go first.
  running_->slice_start_ns_ = lane_->clock_ns >= config_.slice_ns ? lane_->clock_ns - config_.slice_ns : 0;
  leave_fiber();
}

void Machine::sleep_ns(TimeNs ns, const char* why) {
  stop_if_cancelled();
  Task* const task = running_;
  Timer timer(*this, [this, task] { wake(task); });
  timer.set_cpu(this_cpu());
  timer.arm_at(now_ns() + ns);
  block(why);
}

void Machine::sleep_jiffies(std::uint64_t delay, const char* why) {
  stop_if_cancelled();
  Task* const task = running_;
  Timer timer(*this, [this, task] { wake(task); });
  timer.set_cpu(this_cpu());
  timer.arm_jiffies(delay);
  block(why);
}

void Machine::set_priority(Task* task, int priority) {
  if (task->own_priority_ == priority) return;
  task->own_priority_ = priority;
  priority_changed(*task);
}

void Machine::inherit_priority(Task* task, int priority) {
  if (task->inherited_ == priority) return;
  task->inherited_ = priority;
  priority_changed(*task);
}

void Machine::priority_changed(Task& task) {
  Cpu& cpu = cpus_[task.cpu_];
  if (task.state_ == Task::State::kReady) {
    std::erase(cpu.queue, &task);
    enqueue(cpu, task);
    activate(cpu);
  }
  if (&cpu == cpu_ && running_ != nullptr && should_preempt(cpu, *running_)) horizon_ns_ = 0;
}

void Machine::unwind() {
  shutting_down_ = true;
  timers_.clear();
  for (const auto& task : tasks_) {
    if (task->state_ == Task::State::kFinished || task->fiber_.finished()) continue;
    task->cancelled_ = true;
    lane_ = &lanes_[cpus_[task->cpu_].lane];
    cpu_ = &cpus_[task->cpu_];
    horizon_ns_ = kNever;
    points_after_stop_ = 0;
    running_ = task.get();
    while (!task->fiber_.finished()) task->fiber_.resume();
    running_ = nullptr;
  }
  lane_ = nullptr;
  cpu_ = nullptr;
}

}  // namespace mqlab::sim
