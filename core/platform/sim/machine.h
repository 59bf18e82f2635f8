// A simulated machine: N CPUs, tasks on fibers, virtual time.
//
// Time. Each *lane* executes one instruction stream; `lanes == cpus` is a machine whose CPUs run at once, `lanes == 1`
// is an emulator that runs one CPU at a time on one clock. A task's work advances its lane's clock; the machine always
// runs the lane whose clock is least, so effects happen in the order of virtual time. An interrupt that comes in the
// middle of a long charge is handled at its own time and makes the charge longer by what it took; a task that it wakes
// may preempt the charge, the rest of which is then owed.
//
// Ticks. All CPUs tick at once; an idle one until a tick has found it idle, later only if something holds its tick. One
// of them advances jiffies: whoever handles its tick earlier finds timers not due yet. CPUs of one lane tick one after
// another, from a random one on; the first is inside its interrupt until all others have finished theirs.
//
// Scheduling. CPUs have a run queue each (priority, then FIFO). A woken task goes to its last CPU if that is idle, else
// to an idle one. A spinning waiter keeps its CPU. Everything is decided by virtual time, program order and the seed:
// the same configuration gives the same run to the last bit.
//
// Thread safety: a machine belongs to one thread. Several machines may run on several threads.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "platform/cost.h"
#include "platform/sim/fiber.h"
#include "platform/sim/ready_heap.h"

namespace mqlab::sim {

using TimeNs = std::uint64_t;
inline constexpr TimeNs kNever = ~TimeNs{0};
inline constexpr int kAnyCpu = -1;

struct MachineConfig {
  unsigned cpus = 16;
  unsigned lanes = 0;  ///< CPUs that execute at once; 0: all of them
  unsigned hz = 1000;
  std::uint64_t seed = 1;
  TimeNs tick_phase_ns = 0;          ///< how far into a tick the machine starts
  TimeNs slice_ns = 3'000'000;       ///< of tasks that share a CPU
  TimeNs lane_slice_ns = 1'000'000;  ///< of CPUs that share a lane
  bool idle_exits = false;  ///< a task that comes to an idle CPU waits for it to leave its idle state (Cost::kIdleExit)
  double cost_spread = 0;   ///< each charge is drawn evenly from cost * [1 - spread, 1 + spread]
  platform::CostTable costs{};
  /// What the costs have beyond whole nanoseconds, in 1/1024 ns. Carried over until it makes a nanosecond.
  std::array<std::uint16_t, platform::kCostCount> cost_fractions{};
};

class Machine;
class RtMutex;
struct Cpu;

/// A thread of the simulated machine. Owned by the machine.
class Task {
 public:
  enum class State : std::uint8_t { kReady, kRunning, kSleeping, kSpinning, kFinished };

  const std::string& name() const { return name_; }
  unsigned cpu() const { return cpu_; }
  State state() const { return state_; }
  /// The effective priority: its own, or a higher one that it inherits from a waiter.
  int priority() const { return inherited_ > own_priority_ ? inherited_ : own_priority_; }
  int own_priority() const { return own_priority_; }
  /// Why it sleeps, for reports and samples; null while it runs.
  const char* waits_for() const { return waits_for_; }
  /// Whether it is in the slow path of an rt_mutex, asleep or spinning: ps shows either as D.
  bool waits_for_rt_mutex() const { return in_rtlock_wait_; }

 private:
  friend class Machine;
  friend class RtMutex;
  static constexpr int kInheritsNothing = std::numeric_limits<int>::min();
  Task(Machine& machine, std::string name, std::function<void()> body);

  std::string name_;
  Fiber fiber_;
  State state_ = State::kReady;
  unsigned cpu_ = 0;
  bool pinned_ = false;
  bool daemon_ = false;
  bool cancelled_ = false;
  bool wake_pending_ = false;
  int own_priority_ = 0;
  int inherited_ = kInheritsNothing;
  bool in_rtlock_wait_ = false;
  RtMutex* blocked_on_ = nullptr;
  std::vector<RtMutex*> contended_;  // rt_mutexes that it owns and others wait for
  int preempt_disabled_ = 0;
  TimeNs slice_start_ns_ = 0;
  TimeNs owed_ns_ = 0;  // of a charge that it was preempted in
  const char* waits_for_ = nullptr;
  std::deque<Task*> joiners_;
  std::list<std::unique_ptr<Task>>::iterator self_;
};

/// A timer of the simulated machine; fires in interrupt context on `cpu`. Must not outlive its machine.
///
/// A jiffy timer is handled by a CPU that ticks: its own, or another one while its own idles. One that ticks before
/// jiffies was advanced finds the timer not due yet and handles it a jiffy later (source: kernel/time/timer.c,
/// timer_migration.c, tick-sched.c of Linux 7.3). With every CPU idle the timer wakes its CPU in time.
class Timer {
 public:
  Timer(Machine& machine, std::function<void()> expired);
  ~Timer() { cancel(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  void arm_at(TimeNs when_ns);
  /// As the timer wheel: never before `delay` whole jiffies have passed, thus at the (delay + 1)th tick from now.
  void arm_jiffies(std::uint64_t delay);
  /// At the next tick, after every timer that is due then, and outside of any CPU: what the ticks themselves do.
  void arm_tick();
  bool cancel();
  bool armed() const { return armed_; }
  void set_cpu(unsigned cpu) { cpu_ = cpu; }

 private:
  friend class Machine;
  Machine& machine_;
  std::function<void()> expired_;
  std::uint64_t generation_ = 0;
  unsigned cpu_ = 0;
  bool armed_ = false;
  bool by_jiffies_ = false;
  bool overdue_ = false;  // its CPU has looked a jiffy too early
  bool watches_ticks_ = false;
  void push(TimeNs when_ns, std::uint64_t order);
  std::shared_ptr<bool> firing_;  // true while an expiry waits to be handled
};

struct TaskOptions {
  std::string name = "task";
  int cpu = kAnyCpu;    ///< bound to that CPU, or free
  int priority = 0;     ///< higher preempts lower
  bool daemon = false;  ///< the machine does not wait for it to finish
};

class Machine {
 public:
  explicit Machine(const MachineConfig& config);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// The machine whose task or interrupt is executing on this thread.
  static Machine& current();

  /// Runs `root` as a task and goes on until every task that is no daemon has finished.
  /// Throws what a task threw; `Error(kViolation)` when all sleep and nothing can wake them. Tasks that are left
  /// (daemons) are ended before it returns, so what they use must outlive the call.
  void run(std::function<void()> root);

  // --- from tasks and interrupts ---
  TimeNs now_ns() const { return now_ns_ref(); }
  std::uint64_t jiffies() const { return (now_ns() + config_.tick_phase_ns) / tick_ns_; }
  TimeNs jiffy_time_ns(std::uint64_t jiffy) const { return jiffy * tick_ns_ - config_.tick_phase_ns; }
  TimeNs tick_ns() const { return tick_ns_; }
  unsigned hz() const { return config_.hz; }
  unsigned nr_cpus() const { return config_.cpus; }
  bool cpus_share_a_lane() const { return lanes_.size() < config_.cpus; }
  unsigned this_cpu() const;
  Random& random() { return random_; }
  std::uint64_t seed() const { return config_.seed; }

  /// A scheduling point: `ns` of CPU time pass. In interrupt context the interrupt gets longer.
  void advance(TimeNs ns);
  void charge(platform::Cost cost, std::uint64_t times = 1) {
    TimeNs ns = config_.costs[platform::index(cost)] * times;
    if (const std::uint64_t fraction = config_.cost_fractions[platform::index(cost)]; fraction != 0) {
      carried_1024ths_ += fraction * times;
      ns += carried_1024ths_ / 1024;
      carried_1024ths_ %= 1024;
    }
    advance(spread_64ths_ == 0 || ns < kSpreadFromNs ? ns : spread(ns));
  }
  TimeNs cost_ns(platform::Cost cost) const { return config_.costs[platform::index(cost)]; }

  Task* spawn(TaskOptions options, std::function<void()> body);
  void join(Task* task);
  Task* current_task() const { return running_; }
  bool in_task() const { return running_ != nullptr; }

  /// The running task sleeps until wake(). A wake() between the decision to sleep and block() is not lost.
  void block(const char* waits_for);
  /// The running task waits on its CPU until wake(); the CPU does nothing else.
  void spin(const char* waits_for);
  /// Makes a sleeping or spinning task runnable. Waking a task that is neither only marks it, see block().
  void wake(Task* task);
  /// Drops a wake-up that the running task got while it did not sleep.
  void forget_wake() { running_->wake_pending_ = false; }
  void yield();
  void sleep_ns(TimeNs ns, const char* why = "sleep");
  void sleep_jiffies(std::uint64_t delay, const char* why = "schedule_timeout");
  void set_priority(Task* task, int priority);
  /// Lends `priority` to the task; a lower one than its own changes nothing.
  void inherit_priority(Task* task, int priority);
  void preempt_disable() {
    if (running_ != nullptr) ++running_->preempt_disabled_;
  }
  void preempt_enable();

  bool cpu_idle(unsigned cpu) const;
  /// Whether it idles outside of any interrupt, so that nothing can be in use on it.
  bool cpu_quiescent(unsigned cpu) const;
  /// Whether a task waits for it while it runs none.
  bool cpu_must_switch(unsigned cpu) const;
  /// Whether the next tick comes on this CPU: it runs something, its tick is held, or it has just gone idle.
  bool ticks(unsigned id) const;
  /// Whether it begins this tick only when its turn comes, and so sees what others have done in theirs.
  bool tick_begins_later(unsigned cpu) const;
  std::uint64_t cpu_switches(unsigned cpu) const;
  /// While held, the CPU keeps its tick although it idles.
  void hold_tick(unsigned cpu, bool held);
  /// Runs `handler` in interrupt context on `cpu`, now or as soon as its lane gets there.
  void interrupt(unsigned cpu, std::function<void()> handler);

  // --- what happened ---
  std::uint64_t scheduling_points() const { return points_; }
  std::uint64_t context_switches() const { return switches_; }
  bool shutting_down() const { return shutting_down_; }
  const std::list<std::unique_ptr<Task>>& tasks() const { return tasks_; }

 private:
  friend class Timer;
  friend class Task;
  // Drawing for each atomic would cost more than it tells.
  static constexpr TimeNs kSpreadFromNs = 1000;
  struct Lane {
    TimeNs clock_ns = 0;
    TimeNs turn_since_ns = 0;
    TimeNs cut_ns = kNever;  // an interrupt came then, perhaps in the middle of a charge
    std::size_t turn = 0;    // whose CPU executes
    std::size_t active = 0;  // CPUs with something to do
    std::vector<Cpu*> cpus;
  };
  struct PendingTimer {
    TimeNs when_ns;
    std::uint64_t order;
    Timer* timer;
    std::uint64_t generation;
    bool operator>(const PendingTimer& other) const {
      return when_ns != other.when_ns ? when_ns > other.when_ns : order > other.order;
    }
  };

  TimeNs& now_ns_ref() const { return lane_ != nullptr ? lane_->clock_ns : const_cast<TimeNs&>(now_ns_); }
  void loop();
  bool step();
  void run_lane(Lane& lane);
  void run_cpu(Lane& lane, Cpu& cpu);
  void run_interrupts(Cpu& cpu);
  void cut_charge(Lane& lane);
  void resume_charge(Lane& lane, Cpu& cpu);
  void pass_turn(Lane& lane);
  void deactivate(Lane& lane, Cpu& cpu);
  void run_task(Cpu& cpu, Task& task);
  void after_task(Cpu& cpu, Task& task);
  bool should_preempt(const Cpu& cpu, const Task& task) const;
  void dispatch(Cpu& cpu);
  void enqueue(Cpu& cpu, Task& task);
  void priority_changed(Task& task);
  void activate(Cpu& cpu);
  void requeue(Lane& lane);
  void put_ready(unsigned lane);
  TimeNs horizon(const Lane& lane) const;
  void leave_fiber();
  void stop_if_cancelled();
  void fire_timers(TimeNs when_ns);
  TimeNs next_timer_ns();
  void mark_due(std::size_t place, TimeNs when_ns);
  void begin_tick(TimeNs when_ns);
  void begin_tick_in_turns(Lane& lane, TimeNs when_ns);
  bool loses_turn_in_tick(Cpu& cpu);
  unsigned handler_of(const Timer& timer) const;
  bool ticks_before_jiffies(unsigned cpu) const;
  TimeNs spread(TimeNs ns);
  Cpu& select_cpu(const Task& task);
  void finish(Task& task);
  void unwind();
  [[noreturn]] void report_deadlock() const;
  Lane& lane_of(const Cpu& cpu);

  MachineConfig config_;
  TimeNs tick_ns_;
  Random random_;
  Random tick_order_;
  Random cost_noise_;
  std::uint64_t spread_64ths_ = 0;
  unsigned jiffies_cpu_ = 0;          // that advances jiffies
  TimeNs tick_ns_of_order_ = kNever;  // the tick that the order below is of
  std::uint64_t tick_order_salt_ = 0;
  unsigned first_to_tick_ = 0;
  std::uint64_t ticks_begun_ = 0;
  FiberHost host_;
  std::vector<Lane> lanes_;
  std::vector<Cpu> cpus_;
  ReadyHeap ready_;
  std::vector<PendingTimer> timers_;
  std::uint64_t timer_order_ = 0;
  std::list<std::unique_ptr<Task>> tasks_;
  std::size_t unfinished_ = 0;

  Lane* lane_ = nullptr;     // that executes
  Cpu* cpu_ = nullptr;       // that executes
  Task* running_ = nullptr;  // null in interrupts and between tasks
  TimeNs horizon_ns_ = 0;    // the running task may go on up to here without looking around
  TimeNs now_ns_ = 0;        // outside of lanes
  std::uint64_t carried_1024ths_ = 0;
  std::uint64_t points_ = 0;
  std::uint64_t switches_ = 0;
  std::uint64_t steps_ = 0;
  unsigned points_after_stop_ = 0;
  bool shutting_down_ = false;
  std::exception_ptr failure_;
};

struct Cpu {
  unsigned id = 0;
  unsigned lane = 0;
  std::size_t place = 0;  // in its lane
  bool active = false;
  bool tick_held = false;
  bool idled = true;  // since a task ran on it
  std::uint64_t switches = 0;
  TimeNs idle_since_ns = 0;
  TimeNs ticked_ns = 0;         // its last tick that mattered to anyone
  TimeNs timer_due_ns = 0;      // a tick at which a jiffy timer of its own is due
  TimeNs owed_ns = 0;           // of a charge that an interrupt came into
  TimeNs interrupt_end_ns = 0;  // of the last interrupts that it handled
  std::deque<std::function<void()>> interrupts;
  enum class Tick : std::uint8_t { kNone, kDue, kBegun } tick = Tick::kNone;  // of CPUs that take turns
  Task* running = nullptr;
  std::deque<Task*> queue;  // by priority, then arrival
};

inline void Machine::preempt_enable() {
  if (running_ == nullptr) return;
  // What was queued meanwhile may be more urgent: look at the next scheduling point.
  if (--running_->preempt_disabled_ == 0 && !cpu_->queue.empty()) horizon_ns_ = 0;
}

inline void Machine::advance(TimeNs ns) {
  ++points_;
  if (running_ == nullptr) {
    now_ns_ref() += ns;
    return;
  }
  lane_->clock_ns += ns;
  if (lane_->clock_ns > horizon_ns_) leave_fiber();
}

}  // namespace mqlab::sim
