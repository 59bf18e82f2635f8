#include "platform/sim/machine.h"

#include <algorithm>
#include <utility>

#include "base/cancel.h"
#include "base/error.h"

namespace mqlab::sim {
namespace {

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
    const unsigned lane = i % static_cast<unsigned>(lanes_.size());
    cpus_[i].id = i;
    cpus_[i].lane = lane;
    cpus_[i].place = lanes_[lane].cpus.size();
    lanes_[lane].cpus.push_back(&cpus_[i]);
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

bool Machine::cpu_quiescent(unsigned cpu) const {
  const Cpu& seen = cpus_[cpu];
  return cpu_idle(cpu) && (seen.interrupts.empty() || seen.tick == Cpu::Tick::kDue) &&
         now_ns() >= seen.interrupt_end_ns;
}

bool Machine::cpu_must_switch(unsigned cpu) const { return cpus_[cpu].running == nullptr && !cpus_[cpu].queue.empty(); }

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
