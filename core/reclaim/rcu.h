// RCU with the kernel's grace-period machine, counted in jiffies.
//
// Source: kernel/rcu/tree.c, tree_plugin.h, rcu_segcblist.c of Linux 7.3 (behaviour, not code). What a waiter sees
// comes from these rules:
//  1. A grace period starts when the kthread runs; the kthread's CPU reports at once. It then waits `first_fqs` jiffies
//     (3 at HZ > 500, 2 at HZ > 250, else 1; one more with the timer wheel's rounding) before it scans for CPUs that
//     idle, unless every CPU has reported before. A CPU inside a tick is not idle to the first scan; a later one also
//     takes those that have idled since.
//  2. A CPU that runs something, or idles with callbacks queued, keeps its tick and notices the grace period at one. It
//     reports at a later tick, or when it looks again, if it has switched tasks since or runs one: a tick out of the
//     idle task is no quiescent state of a preemptible kernel, so what idles on waits for the scan.
//  3. call_rcu() only queues. A CPU assigns what it has queued to a grace period when it notices or reports one, and at
//     a tick while there is none; it notices the end, and invokes what that freed, at a tick. An expedited grace period
//     frees what was assigned before it began as well.
//  4. Callbacks are invoked in the interrupt, on a CPU with other work ten at a time; ksoftirqd does the rest, and
//  looks
//     at the state of grace periods anew between each ten.
//  5. synchronize_rcu() asks at once and is woken by the kthread itself; above 64 waiters it falls back to rule 3.
//  6. What comes during a grace period needs the next one, which starts as soon as this one ends.
// Concurrent waiters share grace periods.
//
// Thread safety: all functions from any task; call() from interrupts too. P is a TickingPlatform: ticks are the
// machine's, so only the simulated platform runs this machine.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "platform/concept.h"
#include "platform/workqueue.h"
#include "reclaim/rcu_callbacks.h"

namespace mqlab::reclaim {

template <class P>
concept TickingPlatform = platform::Platform<P> && requires(unsigned cpu, std::function<void()> handler) {
  { P::cpu_idle(cpu) } -> std::convertible_to<bool>;
  { P::cpu_quiescent(cpu) } -> std::convertible_to<bool>;
  { P::cpu_must_switch(cpu) } -> std::convertible_to<bool>;
  { P::ticks(cpu) } -> std::convertible_to<bool>;
  { P::tick_begins_later(cpu) } -> std::convertible_to<bool>;
  { P::cpu_switches(cpu) } -> std::convertible_to<std::uint64_t>;
  { P::cost_ns(platform::Cost{}) } -> std::convertible_to<std::uint64_t>;
  P::interrupt(cpu, handler);
  P::hold_tick(cpu, true);
};

template <TickingPlatform P>
class Rcu {
 public:
  using Callback = RcuCallbacks::Callback;
  using Cost = platform::Cost;

  explicit Rcu(platform::WorkQueue<P>& sync_wq) : sync_wq_(sync_wq), cpus_(P::nr_cpus()), tick_([this] { on_tick(); }) {
    P::spawn({.name = "rcu_preempt", .daemon = true}, [this] { grace_period_kthread(); });
  }

  void read_lock() { ++cpus_[P::this_cpu()].readers; }
  void read_unlock() { --cpus_[P::this_cpu()].readers; }

  /// Runs `callback` after a grace period, in interrupt context or ksoftirqd on this CPU. It must not sleep.
  void call(Callback callback) { enqueue({std::move(callback), 1}); }
  /// `count` callbacks that only free memory.
  void call_frees(std::size_t count) {
    if (count > 0) enqueue({{}, count});
  }

  /// Sleeps until every reader that was inside has left.
  void synchronize() {
    ++waits_;
    typename P::completion done("synchronize_rcu");
    if (latched_) {
      call([&done] { done.complete(); });
    } else {
      latched_ = ++sync_waiters_ == kDirectWaitersMost;
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
      expedited_completed_ = expedited_started_;
    }
    expedited_mutex_.unlock();
  }

  /// Sleeps until every callback queued so far, on any CPU, has run.
  void barrier() {
    typename P::completion done("rcu_barrier");
    std::size_t left = 1;
    for (Cpu& cpu : cpus_) {
      if (cpu.callbacks.empty()) continue;
      ++left;
      ++outstanding_;
      cpu.callbacks.enqueue({[&] {
                               if (--left == 0) done.complete();
                             },
                             1});
    }
    arm_tick();
    if (--left > 0) done.wait();
  }

  std::uint64_t grace_periods() const { return completed_; }
  std::uint64_t synchronize_calls() const { return waits_; }

 private:
  struct Ksoftirqd {
    typename P::wait_queue wait{"ksoftirqd"};
    bool wanted = false;
  };
  struct Cpu {
    RcuCallbacks callbacks;
    std::uint64_t seen_started = 0;
    std::uint64_t seen_completed = 0;
    std::uint64_t switches_when_noticed = 0;
    std::uint64_t switches_at_scan = 0;
    bool tick_was_quiescent = false;  // since it noticed the grace period
    int readers = 0;
    std::unique_ptr<Ksoftirqd> ksoftirqd;  // made when first needed
  };

  static constexpr std::size_t kWokenDirectly = 5;
  static constexpr std::size_t kDirectWaitersMost = 64;
  static constexpr std::size_t kBatchLeast = 10;
  static constexpr std::size_t kBatchShare = 128;  // of what is ready, once that is more
  static constexpr unsigned kSoftirqPasses = 10;
  static std::uint64_t fqs_jiffies() { return 1U + (P::hz() > 250) + (P::hz() > 500) + P::nr_cpus() / 256; }

  bool in_progress() const { return started_ != completed_; }
  /// The grace period whose end covers all that was queued before now.
  std::uint64_t snapshot() const { return started_ + 1; }
  std::uint64_t expedited_snapshot() const { return expedited_started_ + 1; }

  void enqueue(RcuCallbacks::Batch batch) {
    outstanding_ += batch.count;
    cpus_[P::this_cpu()].callbacks.enqueue(std::move(batch));
    P::hold_tick(P::this_cpu(), true);
    arm_tick();
  }

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
    sync_current_.insert(sync_current_.end(), sync_next_.begin(), sync_next_.end());
    sync_next_.clear();
    const unsigned self = P::this_cpu();
    note_changes(self);
    report(self);
    arm_tick();
  }

  void force_quiescent_states() {
    for (bool first = true; qs_missing_ > 0; first = false) {
      bool expired = false;
      typename P::timer timeout([this, &expired] {
        expired = true;
        kthread_.wake_one();
      });
      timeout.arm_jiffies(fqs_jiffies());
      kthread_.wait([&] { return expired || qs_missing_ == 0; });
      if (qs_missing_ == 0) return;
      P::charge(Cost::kRcuForceQs, P::nr_cpus());
      for (unsigned i = 0; i < cpus_.size(); ++i)
        if (qs_needed_[i] && scan(i, first)) end_wait_for(i);
    }
  }

  bool scan(unsigned id, bool first) {
    Cpu& cpu = cpus_[id];
    if (cpu.readers > 0) return false;
    const std::uint64_t switches = std::exchange(cpu.switches_at_scan, P::cpu_switches(id));
    return P::cpu_quiescent(id) || (!first && (P::cpu_idle(id) || switches != cpu.switches_at_scan));
  }

  void end_wait_for(unsigned id) {
    qs_needed_[id] = false;
    if (--qs_missing_ == 0) kthread_.wake_one();
  }

  /// From the CPU itself. This grace period can no longer end without it, so what it has queued needs the next one.
  void report(unsigned id) {
    if (!qs_needed_[id]) return;
    assign(cpus_[id]);
    end_wait_for(id);
  }

  void cleanup() {
    P::charge(Cost::kRcuGpCleanup);
    completed_ = started_;
    note_changes(P::this_cpu());
    std::vector<typename P::completion*> waiters;
    waiters.swap(sync_current_);
    sync_waiters_ -= waiters.size();
    latched_ = latched_ && sync_waiters_ > 0;
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
    if (cpu.seen_started == started_ && cpu.seen_completed == completed_) return;
    if (cpu.seen_started != started_) {
      cpu.switches_when_noticed = P::cpu_switches(id);
      cpu.tick_was_quiescent = false;
    }
    cpu.seen_started = started_;
    cpu.seen_completed = completed_;
    cpu.callbacks.advance(completed_, expedited_completed_);
    assign(cpu);
  }

  void assign(Cpu& cpu) {
    if (cpu.callbacks.assign(snapshot(), expedited_snapshot())) request(snapshot());
  }

  bool was_quiescent(unsigned id) const {
    const Cpu& cpu = cpus_[id];
    return cpu.readers == 0 && (cpu.tick_was_quiescent || P::cpu_switches(id) != cpu.switches_when_noticed);
  }

  bool pending(unsigned id) const {
    const Cpu& cpu = cpus_[id];
    return cpu.seen_started != started_ || cpu.seen_completed != completed_ ||
           cpu.callbacks.ready(completed_, expedited_completed_) ||
           (in_progress() && qs_needed_[id] && was_quiescent(id)) || (!in_progress() && cpu.callbacks.has_new());
  }

  void arm_tick() {
    if (!tick_.armed() && (in_progress() || outstanding_ > 0)) tick_.arm_tick();
  }

  void on_tick() {
    for (unsigned id = 0; id < cpus_.size(); ++id) {
      if (!P::ticks(id)) continue;
      if (P::tick_begins_later(id))
        P::interrupt(id, [this, id] {
          if (tick_raises_softirq(id)) softirq(id);
        });
      else if (tick_raises_softirq(id))
        P::interrupt(id, [this, id] { softirq(id); });
    }
    arm_tick();
  }

  bool tick_raises_softirq(unsigned id) {
    // The idle task runs with preemption off, which the tick cannot tell from a reader.
    if (!P::cpu_idle(id)) cpus_[id].tick_was_quiescent = cpus_[id].readers == 0;
    return pending(id);
  }

  /// Again while callbacks are left, but a task that waits for the CPU goes first, and after some passes anyone else.
  void softirq(unsigned id) {
    for (unsigned passes = 0; pass(id); ++passes) {
      if (!P::cpu_must_switch(id) && passes + 1 < kSoftirqPasses) continue;
      wake_ksoftirqd(id);
      return;
    }
  }

  void wake_ksoftirqd(unsigned id) {
    Cpu& cpu = cpus_[id];
    if (!cpu.ksoftirqd) {
      cpu.ksoftirqd = std::make_unique<Ksoftirqd>();
      P::spawn({.name = "ksoftirqd/" + std::to_string(id), .cpu = static_cast<int>(id), .daemon = true}, [this, id] {
        Ksoftirqd& self = *cpus_[id].ksoftirqd;
        for (;;) {
          self.wait.wait([&self] { return std::exchange(self.wanted, false); });
          // Between two passes it is in no reader.
          while (pass(id)) cpus_[id].tick_was_quiescent = true;
        }
      });
    }
    cpu.ksoftirqd->wanted = true;
    cpu.ksoftirqd->wait.wake_one();
  }

  /// One look at the state of grace periods, and a batch of callbacks. Returns whether some are left.
  bool pass(unsigned id) {
    Cpu& cpu = cpus_[id];
    P::charge(Cost::kRcuCore);
    note_changes(id);
    if (in_progress() && was_quiescent(id)) report(id);
    cpu.callbacks.advance(completed_, expedited_completed_);
    if (!in_progress()) assign(cpu);
    invoke(id);
    if (cpu.callbacks.empty()) P::hold_tick(id, false);
    return cpu.callbacks.any_done();
  }

  void invoke(unsigned id) {
    RcuCallbacks& callbacks = cpus_[id].callbacks;
    std::size_t limit = callbacks.done_count() / kBatchShare;
    if (limit < kBatchLeast) limit = kBatchLeast;
    std::size_t count = 0;
    while (callbacks.any_done() && (count < limit || P::cpu_idle(id))) {
      // Frees are alike: as many at once as the limit allows.
      const RcuCallbacks::Batch batch = callbacks.take_done(P::cpu_idle(id) ? ~std::size_t{0} : limit - count);
      count += batch.count;
      outstanding_ -= batch.count;
      P::charge(Cost::kRcuCallback, batch.count);
      if (batch.callback) batch.callback();
    }
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
  std::uint64_t expedited_completed_ = 0;
  std::uint64_t waits_ = 0;
  std::size_t outstanding_ = 0;
  std::size_t sync_waiters_ = 0;
  bool latched_ = false;
  std::vector<typename P::completion*> sync_next_;
  std::vector<typename P::completion*> sync_current_;
};

}  // namespace mqlab::reclaim
