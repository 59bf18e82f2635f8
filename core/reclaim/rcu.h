// RCU with the kernel's grace-period machine, counted in jiffies.
//
// Source: kernel/rcu/tree.c of Linux 7.3 (behaviour, not code). What a waiter sees comes from five rules:
//  1. A grace period starts when the kthread runs; it then waits `first_fqs` jiffies (3 at HZ > 500, 2 at HZ > 250,
//  else 1;
//     one more with the timer wheel's rounding) before it scans for idle CPUs, unless every CPU has reported before.
//  2. A CPU that runs something, or idles with callbacks queued, keeps its tick: it notices the grace period at one
//  tick and
//     reports at the next. One that idles otherwise is reported by the scan.
//  3. call_rcu() only queues: the CPU asks for a grace period at its next tick, and notices the end of one, and invokes
//     what that freed, at the tick after it. So a callback waits up to two ticks more than the grace period.
//  4. synchronize_rcu() asks at once and is woken by the kthread itself; above 64 waiters it falls back to rule 3.
//  5. What comes during a grace period needs the next one, which starts as soon as this one ends.
// Concurrent waiters share grace periods.
//
// Thread safety: all functions from any task; call() from interrupts too. P needs cpu_idle() and interrupt(): ticks are
// the machine's, so only the simulated platform runs this machine.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "platform/concept.h"
#include "platform/workqueue.h"

namespace mqlab::reclaim {

template <class P>
concept TickingPlatform = platform::Platform<P> && requires(unsigned cpu, std::function<void()> handler) {
  { P::cpu_idle(cpu) } -> std::convertible_to<bool>;
  { P::ticks(cpu) } -> std::convertible_to<bool>;
  { P::cpu_switches(cpu) } -> std::convertible_to<std::uint64_t>;
  { P::cost_ns(platform::Cost{}) } -> std::convertible_to<std::uint64_t>;
  P::interrupt(cpu, handler);
  P::hold_tick(cpu, true);
  { P::jiffy_time_ns(std::uint64_t{}) } -> std::convertible_to<std::uint64_t>;
};

template <TickingPlatform P>
class Rcu {
 public:
  using Callback = std::function<void()>;
  using Cost = platform::Cost;

  explicit Rcu(platform::WorkQueue<P>& sync_wq) : sync_wq_(sync_wq), cpus_(P::nr_cpus()), tick_([this] { on_tick(); }) {
    P::spawn({.name = "rcu_preempt", .daemon = true}, [this] { grace_period_kthread(); });
  }

  void read_lock() { ++cpus_[P::this_cpu()].readers; }
  void read_unlock() { --cpus_[P::this_cpu()].readers; }

  /// Runs `callback` after a grace period, in interrupt context on this CPU. It must not sleep.
  void call(Callback callback) {
    cpus_[P::this_cpu()].next.push_back(std::move(callback));
    ++outstanding_;
    P::hold_tick(P::this_cpu(), true);
    arm_tick();
  }

  /// Sleeps until every reader that was inside has left.
  void synchronize() {
    ++waits_;
    typename P::completion done("synchronize_rcu");
    if (sync_waiters_ >= kDirectWaitersMost) {
      call([&done] { done.complete(); });
    } else {
      ++sync_waiters_;
      sync_next_.push_back(&done);
      request(snapshot());
    }
    done.wait();
  }

  /// A grace period forced by interrupts to the CPUs that are not idle; concurrent callers share one.
  void synchronize_expedited() {
    const std::uint64_t wanted = expedited_started_ + 1;
    expedited_mutex_.lock();
    if (expedited_started_ < wanted) {
      ++expedited_started_;
      P::sleep_ns(P::cost_ns(Cost::kRcuExpedited));
    }
    expedited_mutex_.unlock();
  }

  /// Sleeps until every callback queued so far, on any CPU, has run.
  void barrier() {
    typename P::completion done("rcu_barrier");
    std::size_t left = 1;
    for (Cpu& cpu : cpus_) {
      if (cpu.empty()) continue;
      ++left;
      ++outstanding_;
      cpu.next.push_back([&] {
        if (--left == 0) done.complete();
      });
    }
    arm_tick();
    if (--left > 0) done.wait();
  }

  std::uint64_t grace_periods() const { return completed_; }
  std::uint64_t synchronize_calls() const { return waits_; }

 private:
  struct Cpu {
    std::deque<Callback> next;                              // no grace period assigned yet
    std::map<std::uint64_t, std::deque<Callback>> waiting;  // by the grace period whose end frees them
    std::deque<Callback> done;
    std::uint64_t seen_started = 0;
    std::uint64_t seen_completed = 0;
    std::uint64_t switches_at_start = 0;
    int readers = 0;
    bool empty() const { return next.empty() && waiting.empty() && done.empty(); }
  };

  static constexpr std::size_t kWokenDirectly = 5;
  static constexpr std::size_t kDirectWaitersMost = 64;
  static std::uint64_t first_fqs_jiffies() { return 1U + (P::hz() > 250) + (P::hz() > 500) + P::nr_cpus() / 256; }

  bool in_progress() const { return started_ != completed_; }
  /// The grace period whose end covers all that was queued before now.
  std::uint64_t snapshot() const { return started_ + 1; }

  void request(std::uint64_t grace_period) {
    if (needed_ >= grace_period) return;
    needed_ = grace_period;
    kthread_.wake_one();
    arm_tick();
  }

  void grace_period_kthread() {
    for (;;) {
      kthread_.wait([this] { return needed_ > completed_; });
      start();
      force_quiescent_states();
      cleanup();
    }
  }

  void start() {
    P::charge(Cost::kRcuGpStart);
    ++started_;
    qs_missing_ = P::nr_cpus();
    qs_needed_.assign(P::nr_cpus(), true);
    for (unsigned i = 0; i < cpus_.size(); ++i) cpus_[i].switches_at_start = P::cpu_switches(i);
    sync_current_.insert(sync_current_.end(), sync_next_.begin(), sync_next_.end());
    sync_next_.clear();
    const unsigned self = P::this_cpu();
    note_changes(self);
    report(self);
    arm_tick();
  }

  void force_quiescent_states() {
    while (qs_missing_ > 0) {
      bool expired = false;
      typename P::timer timeout([this, &expired] {
        expired = true;
        kthread_.wake_one();
      });
      timeout.arm_jiffies(first_fqs_jiffies());
      kthread_.wait([&] { return expired || qs_missing_ == 0; });
      if (qs_missing_ == 0) return;
      P::charge(Cost::kRcuForceQs, P::nr_cpus());
      for (unsigned i = 0; i < cpus_.size(); ++i)
        if (qs_needed_[i] && was_idle(i)) report(i);
    }
  }

  bool was_idle(unsigned cpu) const {
    return cpus_[cpu].readers == 0 &&
           (P::cpu_idle(cpu) || cpu == P::this_cpu() || P::cpu_switches(cpu) != cpus_[cpu].switches_at_start);
  }

  void report(unsigned cpu) {
    if (!qs_needed_[cpu]) return;
    qs_needed_[cpu] = false;
    if (--qs_missing_ == 0) kthread_.wake_one();
  }

  void cleanup() {
    P::charge(Cost::kRcuGpCleanup);
    completed_ = started_;
    note_changes(P::this_cpu());
    std::vector<typename P::completion*> waiters;
    waiters.swap(sync_current_);
    sync_waiters_ -= waiters.size();
    for (std::size_t i = 0; i < waiters.size() && i < kWokenDirectly; ++i) waiters[i]->complete();
    if (waiters.size() > kWokenDirectly)
      sync_wq_.queue([waiters = std::move(waiters)] {
        for (std::size_t i = kWokenDirectly; i < waiters.size(); ++i) waiters[i]->complete();
      });
    arm_tick();
  }

  /// What a CPU does when it learns that a grace period has ended or begun: its freed callbacks are ready, its new ones
  /// are given the next grace period.
  void note_changes(unsigned id) {
    Cpu& cpu = cpus_[id];
    const bool news = cpu.seen_started != started_ || cpu.seen_completed != completed_;
    cpu.seen_started = started_;
    cpu.seen_completed = completed_;
    while (!cpu.waiting.empty() && cpu.waiting.begin()->first <= completed_) {
      auto& freed = cpu.waiting.begin()->second;
      cpu.done.insert(cpu.done.end(), std::make_move_iterator(freed.begin()), std::make_move_iterator(freed.end()));
      cpu.waiting.erase(cpu.waiting.begin());
    }
    if (news) accelerate(cpu);
  }

  void accelerate(Cpu& cpu) {
    if (cpu.next.empty()) return;
    const std::uint64_t target = snapshot();
    auto& segment = cpu.waiting[target];
    segment.insert(segment.end(), std::make_move_iterator(cpu.next.begin()), std::make_move_iterator(cpu.next.end()));
    cpu.next.clear();
    request(target);
  }

  bool pending(unsigned id) const {
    const Cpu& cpu = cpus_[id];
    return cpu.seen_started != started_ || cpu.seen_completed != completed_ || !cpu.done.empty() ||
           (in_progress() && qs_needed_[id]) || (!in_progress() && !cpu.next.empty());
  }

  void arm_tick() {
    if (!tick_.armed() && (in_progress() || outstanding_ > 0)) tick_.arm_at(P::jiffy_time_ns(P::jiffies() + 1));
  }

  void on_tick() {
    for (unsigned id = 0; id < cpus_.size(); ++id)
      if (P::ticks(id) && pending(id)) P::interrupt(id, [this, id] { core(id); });
    arm_tick();
  }

  void core(unsigned id) {
    Cpu& cpu = cpus_[id];
    P::charge(Cost::kRcuCore);
    // A quiescent state counts once the CPU has noticed the grace period, so a CPU reports at the tick after that.
    const bool noticed_before = cpu.seen_started == started_;
    note_changes(id);
    if (in_progress() && noticed_before && cpu.readers == 0) report(id);
    if (!in_progress()) accelerate(cpu);
    while (!cpu.done.empty()) {
      const Callback callback = std::move(cpu.done.front());
      cpu.done.pop_front();
      --outstanding_;
      P::charge(Cost::kRcuCallback);
      callback();
    }
    if (cpu.empty()) P::hold_tick(id, false);
  }

  platform::WorkQueue<P>& sync_wq_;
  std::vector<Cpu> cpus_;
  typename P::timer tick_;
  typename P::wait_queue kthread_{"rcu_gp_wq"};
  typename P::mutex expedited_mutex_{"rcu_exp_mutex"};
  std::vector<bool> qs_needed_ = std::vector<bool>(P::nr_cpus(), false);
  std::size_t qs_missing_ = 0;
  std::uint64_t started_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t needed_ = 0;
  std::uint64_t expedited_started_ = 0;
  std::uint64_t waits_ = 0;
  std::size_t outstanding_ = 0;
  std::size_t sync_waiters_ = 0;
  std::vector<typename P::completion*> sync_next_;
  std::vector<typename P::completion*> sync_current_;
};

}  // namespace mqlab::reclaim
