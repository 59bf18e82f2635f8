// SRCU: sleepable read-copy-update, with the kernel's grace-period machine counted in jiffies.
//
// Source: kernel/rcu/srcutree.c of Linux 7.3 (behaviour, not code). A grace period scans the readers of one index,
// flips the index, and scans again (states idle, scan1, scan2). A normal one starts one jiffy after it was asked for
// and its callbacks are invoked one jiffy after it ended; the timer wheel rounds each up by one, so a waiter that comes
// at phase f of a tick waits 4 - f jiffies. synchronize_srcu() on an instance that was idle for 25 us is expedited: it
// waits for no jiffy at all. What comes during a grace period needs the next one. A small instance has all its
// callbacks invoked on the boot CPU; its other steps run where their timer is handled.
//
// Thread safety: all functions from any task; call() from interrupts too. The read side takes no lock.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "platform/concept.h"
#include "platform/workqueue.h"

namespace mqlab::reclaim {

template <class P>
class Srcu {
 public:
  using Callback = std::function<void()>;
  using Cost = platform::Cost;

  explicit Srcu(platform::WorkQueue<P>& gp_wq)
      : cpus_(std::make_unique<Cpu[]>(P::nr_cpus())),
        gp_wq_(gp_wq),
        work_(gp_wq, [this] { process(); }),
        callbacks_work_(gp_wq, [this] { invoke_callbacks(); }, platform::WorkPlace::kFirstCpu) {}
  Srcu(const Srcu&) = delete;
  Srcu& operator=(const Srcu&) = delete;

  /// Enters a read-side critical section; the result goes to read_unlock().
  unsigned read_lock() {
    const unsigned index = static_cast<unsigned>(current_.load(std::memory_order_relaxed)) & 1U;
    // The count must be visible before anything that the reader reads: without this the updater could see no reader
    // while the reader still gets the old pointer, which is then freed under it.
    cpus_[P::this_cpu()].locks[index].fetch_add(1, std::memory_order_seq_cst);
    return index;
  }

  void read_unlock(unsigned index) {
    // The reader's accesses must be done before its unlock is counted: without this they could slip past the end of the
    // grace period that the count allows.
    cpus_[P::this_cpu()].unlocks[index].fetch_add(1, std::memory_order_seq_cst);
  }

  /// Runs `callback` in a worker after a grace period.
  void call(Callback callback) { start_if_needed(std::move(callback), true); }

  /// Sleeps until every reader that was inside has left.
  void synchronize() {
    const bool normal = !should_expedite();
    typename P::completion done("synchronize_srcu");
    start_if_needed([&done] { done.complete(); }, normal);
    done.wait();
  }

  /// Sleeps until every callback queued before has run. Returns at once when there is none; else it waits for the grace
  /// period of the last one, even if readers are long gone.
  void barrier() {
    const platform::Guard<typename P::mutex> one_at_a_time(barrier_mutex_);
    P::charge(Cost::kSrcuBarrierPerCpu, P::nr_cpus());
    typename P::completion done("srcu_barrier");
    if (entrain([&done] { done.complete(); })) done.wait();
  }

  /// Waits for the machine's own work to finish, as before the instance is freed. barrier() comes first.
  void cleanup() {
    work_.flush();
    callbacks_work_.flush();
    P::charge(Cost::kFreeSrcuPerCpu, P::nr_cpus());
  }

  std::uint64_t grace_periods() {
    const platform::Guard<typename P::spinlock> guard(lock_);
    return done_;
  }
  /// What one instance takes, the per-CPU part included.
  static std::size_t bytes() { return sizeof(Srcu) + P::nr_cpus() * sizeof(Cpu); }

 private:
  enum class State { kIdle, kScan1, kScan2 };
  // 64 bytes apart from its neighbours: readers of different CPUs must not share a line.
  struct alignas(64) Cpu {
    typename P::template atomic<std::uint64_t> locks[2] = {0, 0};
    typename P::template atomic<std::uint64_t> unlocks[2] = {0, 0};
  };
  struct Pending {
    Callback function;
    std::uint64_t grace_period;
  };

  static constexpr std::uint64_t kExpediteAfterIdleNs = 25'000;
  static constexpr std::uint64_t kRetryNs = 5'000;
  static constexpr std::uint64_t kMaxIntervalJiffies = 10;
  static std::uint64_t max_nodelay_per_phase() {
    const std::uint64_t tries = 2'000'000 / P::hz() / (kRetryNs / 1000);
    return tries < 3 ? 3 : (tries > 1000 ? 1000 : tries);
  }

  std::uint64_t snapshot() const { return started_ + 1; }
  bool expedited() const { return started_ + (state_ == State::kIdle ? 1 : 0) <= needed_expedited_; }

  void start_if_needed(Callback callback, bool normal) {
    P::charge(Cost::kSrcuCall);
    const platform::Guard<typename P::spinlock> guard(lock_);
    const std::uint64_t target = snapshot();
    callbacks_.push_back({std::move(callback), target});
    ++count_;
    if (needed_ < target) needed_ = target;
    if (!normal && needed_expedited_ < target) needed_expedited_ = target;
    if (state_ == State::kIdle) {
      start();
      work_.queue(delay_jiffies() > 0 ? 1 : 0);
    }
  }

  /// Behind the last callback, with its grace period. Returns false when there is none.
  bool entrain(Callback callback) {
    const platform::Guard<typename P::spinlock> guard(lock_);
    if (count_ == 0) return false;
    const std::uint64_t target = callbacks_.empty() ? 0 : callbacks_.back().grace_period;
    callbacks_.push_back({std::move(callback), target});
    ++count_;
    return true;
  }

  bool should_expedite() {
    const platform::Guard<typename P::spinlock> guard(lock_);
    if (!callbacks_.empty() && P::this_cpu() == 0)
      return false;  // a small instance keeps its callbacks on the boot CPU
    if (ever_ended_ && P::now_ns() - last_end_ns_ < kExpediteAfterIdleNs) return false;
    return needed_ <= done_;
  }

  void start() {
    start_jiffy_ = P::jiffies();
    nodelay_tries_ = 0;
    ++started_;
    state_ = State::kScan1;
  }

  /// How long the next step may wait: nothing if expedited, else a jiffy, and more the longer readers stay. Under
  /// lock_.
  std::uint64_t delay_jiffies() {
    std::uint64_t delay = expedited() ? 0 : 1;
    if (state_ != State::kIdle) {
      const std::uint64_t now = P::jiffies() - 1;
      if (now > start_jiffy_ && P::jiffies() > 0) delay += now - start_jiffy_;
      if (delay == 0 && ++nodelay_tries_ > max_nodelay_per_phase()) delay = 1;
    }
    return delay > kMaxIntervalJiffies ? kMaxIntervalJiffies : delay;
  }

  void process() {
    advance_state();
    const platform::Guard<typename P::spinlock> guard(lock_);
    const std::uint64_t delay = delay_jiffies();
    if (state_ == State::kIdle) {
      if (needed_ <= done_) return;
      start();
    }
    work_.queue(delay);
  }

  void advance_state() {
    const platform::Guard<typename P::mutex> one_at_a_time(gp_mutex_);
    if (!begin_or_continue()) return;
    if (state() == State::kScan1) {
      if (!readers_gone(other_index(), 1)) return;
      flip();
      enter_scan2();
    }
    if (state() == State::kScan2 && readers_gone(other_index(), 2)) end();
  }

  State state() {
    const platform::Guard<typename P::spinlock> guard(lock_);
    return state_;
  }

  /// Whether there is a grace period to work on; begins the next one if it is asked for.
  bool begin_or_continue() {
    const platform::Guard<typename P::spinlock> guard(lock_);
    if (state_ != State::kIdle) return true;
    if (needed_ <= done_) return false;
    start();
    return true;
  }

  void enter_scan2() {
    const platform::Guard<typename P::spinlock> guard(lock_);
    state_ = State::kScan2;
    nodelay_tries_ = 0;
  }

  unsigned other_index() const { return (static_cast<unsigned>(current_.load(std::memory_order_relaxed)) & 1U) ^ 1U; }

  void flip() {
    // Later readers must use the other index: without the order a reader could count on the index that the next scan
    // takes for empty.
    current_.fetch_add(1, std::memory_order_seq_cst);
  }

  bool readers_gone(unsigned index, int tries) {
    const int more = expedited_now() ? 1 : 0;
    for (;;) {
      if (unlocks_equal_locks(index)) return true;
      if (--tries + more <= 0) return false;
      P::sleep_ns(kRetryNs);
    }
  }

  bool expedited_now() {
    const platform::Guard<typename P::spinlock> guard(lock_);
    return delay_jiffies() == 0;
  }

  bool unlocks_equal_locks(unsigned index) {
    P::charge(Cost::kSrcuScanPerCpu, P::nr_cpus());
    std::uint64_t unlocks = 0;
    for (unsigned cpu = 0; cpu < P::nr_cpus(); ++cpu)
      unlocks += cpus_[cpu].unlocks[index].load(std::memory_order_seq_cst);
    // Unlocks are summed first: the other way round a reader that moves between CPUs could be counted out twice.
    std::uint64_t locks = 0;
    for (unsigned cpu = 0; cpu < P::nr_cpus(); ++cpu) locks += cpus_[cpu].locks[index].load(std::memory_order_seq_cst);
    return locks == unlocks;
  }

  void end() {
    const platform::Guard<typename P::spinlock> guard(lock_);
    nodelay_tries_ = 0;
    const std::uint64_t callback_delay = expedited() ? 0 : 1;
    last_end_ns_ = P::now_ns();
    ever_ended_ = true;
    done_ = started_;
    state_ = State::kIdle;
    if (needed_expedited_ < done_) needed_expedited_ = done_;
    callbacks_work_.reduce(callback_delay);
    if (needed_ > done_) {
      start();
      work_.queue(0);
    }
  }

  void invoke_callbacks() {
    std::deque<Pending> ready = take_ready();
    for (Pending& pending : ready) {
      P::charge(Cost::kRcuCallback);
      pending.function();
    }
    if (ready.empty()) return;
    const platform::Guard<typename P::spinlock> guard(lock_);
    count_ -= ready.size();
    invoking_ = false;
    if (!callbacks_.empty() && callbacks_.front().grace_period <= done_) callbacks_work_.queue(0);
  }

  /// The callbacks whose grace period is over; none while another worker invokes some, which keeps their order.
  std::deque<Pending> take_ready() {
    const platform::Guard<typename P::spinlock> guard(lock_);
    std::deque<Pending> ready;
    if (invoking_) return ready;
    while (!callbacks_.empty() && callbacks_.front().grace_period <= done_) {
      ready.push_back(std::move(callbacks_.front()));
      callbacks_.pop_front();
    }
    invoking_ = !ready.empty();
    return ready;
  }

  std::unique_ptr<Cpu[]> cpus_;
  typename P::template atomic<std::uint64_t> current_{0};
  [[maybe_unused]] platform::WorkQueue<P>& gp_wq_;
  platform::DelayedWork<P> work_;
  platform::DelayedWork<P> callbacks_work_;
  typename P::spinlock lock_;  // the state below
  typename P::mutex gp_mutex_{"srcu_gp_mutex"};
  typename P::mutex barrier_mutex_{"srcu_barrier_mutex"};
  State state_ = State::kIdle;
  std::uint64_t started_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t needed_ = 0;
  std::uint64_t needed_expedited_ = 0;
  std::uint64_t start_jiffy_ = 0;
  std::uint64_t last_end_ns_ = 0;
  std::uint64_t nodelay_tries_ = 0;
  bool ever_ended_ = false;
  bool invoking_ = false;
  std::deque<Pending> callbacks_;
  std::size_t count_ = 0;
};

}  // namespace mqlab::reclaim
