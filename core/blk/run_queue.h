// The part of a request queue that takes requests in and runs hardware queues.
//
// run_hw_queue() is the heart: look without a lock whether there is something to do; if not, look again as the guard
// demands (quiesce.h); if there is, dispatch here, or hand it to kblockd when the caller wants or must. SCSI's
// completions call it for every hardware queue, which is where irq threads meet on the guard's lock.
//
// Thread safety: all functions from any task. Invariant: a request that waits while the queue is not quiesced has a run
// coming; find_lost() reports one that has not. Source: block/blk-mq.c of Linux 7.3 (behaviour).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "blk/dispatch.h"
#include "blk/hw_queue.h"
#include "blk/kblockd.h"
#include "blk/quiesce.h"

namespace mqlab::blk {

/// Whether the start of a freeze runs the hardware queues itself or leaves it to kblockd.
enum class FreezeRun { kSync, kAsync };

template <class P, class Driver>
class RunQueue {
 public:
  using Cost = platform::Cost;
  using Request = QueuedRequest<P>;
  using Hw = HwQueue<P>;

  /// CPUs are dealt to the hardware queues in turn; with more queues than CPUs the later ones have none of their own
  /// and take the CPU of their number, modulo.
  RunQueue(Kblockd<P>& kblockd, Driver& driver, unsigned hw_queues, const QuiesceConfig& quiesce)
      : kblockd_(kblockd), driver_(driver), quiesce_(quiesce), dispatcher_(*this) {
    for (unsigned i = 0; i < hw_queues; ++i) {
      std::vector<unsigned> cpus;
      for (unsigned cpu = i; cpu < P::nr_cpus(); cpu += hw_queues) cpus.push_back(cpu);
      if (cpus.empty()) cpus.push_back(i % P::nr_cpus());
      hw_.push_back(
          std::make_unique<Hw>(i, std::move(cpus), quiesce.kernel, [this, i] { dispatcher_.dispatch(*hw_[i]); }));
    }
  }
  RunQueue(const RunQueue&) = delete;
  RunQueue& operator=(const RunQueue&) = delete;

  /// Sends a new request straight to the driver, or queues it when that is not possible.
  void submit(Request& request) {
    request.cpu = P::this_cpu();
    request.hw_queue = hw_[request.cpu % hw_.size()].get();
    Hw& hw = *request.hw_queue;
    if (quiesce_.quiesced() || !get_budget(hw)) {
      insert(request);
      run_hw_queue(hw, false);
    } else if (driver_.queue_rq(hw, request)) {
      ++counters_.dispatched;
    } else {
      bypass_insert(request);
      run_hw_queue(hw, false);
    }
  }

  /// To the software queue of the request's CPU.
  void insert(Request& request) {
    Hw& hw = *request.hw_queue;
    const std::size_t i = hw.software_index(request.cpu);
    SoftwareQueue<P>& software = *hw.software[i];
    request.added_ns = P::now_ns();
    software.lock.lock();
    software.requests.push_back(&request);
    const std::uint64_t bit = std::uint64_t{1} << i;
    if ((hw.software_pending.load(std::memory_order_relaxed) & bit) == 0)
      hw.software_pending.fetch_or(bit, std::memory_order_relaxed);
    software.lock.unlock();
    quiesce_.request_added(AddSite::kInsertToSoftwareQueue);
  }

  /// To the dispatch list, past the software queues.
  void bypass_insert(Request& request) {
    Hw& hw = *request.hw_queue;
    request.added_ns = P::now_ns();
    hw.lock.lock();
    hw.dispatch.push_back(&request);
    hw.dispatch_length.store(static_cast<std::uint32_t>(hw.dispatch.size()), std::memory_order_relaxed);
    hw.lock.unlock();
    quiesce_.request_added(AddSite::kBypassInsert);
  }

  void run_hw_queue(Hw& hw, bool async) {
    P::charge(Cost::kRunHwQueue);
    ++counters_.runs;
    const auto need_run = [&] { return !quiesce_.quiesced() && hw.has_pending(); };
    if (!need_run()) {
      ++counters_.second_looks;
      if (!quiesce_.look_again(need_run)) return;
    }
    if (async || !hw.mapped_to(P::this_cpu()))
      delay_run_hw_queue(hw, 0);
    else
      dispatcher_.dispatch(hw);
  }

  void run_hw_queues(bool async) {
    for (const auto& hw : hw_) run_hw_queue(*hw, async);
  }

  void delay_run_hw_queue(Hw& hw, std::uint64_t delay_ms) {
    ++counters_.delegated;
    // One queue alone runs wherever it is asked for.
    const unsigned cpu = hw_.size() == 1 ? P::this_cpu() : hw.next_cpu();
    kblockd_.mod_delayed(cpu, hw.run_work, (delay_ms * P::hz() + 999) / 1000);
  }

  void delay_run_hw_queues(std::uint64_t delay_ms) {
    for (const auto& hw : hw_)
      if (!hw->run_work.pending()) delay_run_hw_queue(*hw, delay_ms);
  }

  /// To be called when one of `hw`'s requests has completed: makes good what put_back() marked.
  void restart(Hw& hw) {
    if (hw.needs_restart.load(std::memory_order_relaxed) == 0) return;
    hw.needs_restart.fetch_and(0, std::memory_order_relaxed);
    P::smp_mb();  // pairs with the barrier in Dispatcher::put_back()
    run_hw_queue(hw, true);
  }

  void quiesce() { quiesce_.quiesce(); }
  void unquiesce() {
    if (quiesce_.unquiesce()) run_hw_queues(true);
  }

  /// What the start of a freeze does after the usage counter is killed: requests that wait go on, so that it can drain.
  void run_at_freeze(FreezeRun how) { run_hw_queues(how == FreezeRun::kAsync); }

  /// A request that waits although the queue is not quiesced and no run is coming; call when nothing else happens.
  std::optional<std::string> find_lost() const {
    if (quiesce_.quiesced()) return std::nullopt;
    for (const auto& hw : hw_) {
      if (!hw->has_pending() || hw->run_work.active()) continue;
      return "lost queue run: a request waits in hardware queue " + std::to_string(hw->index) +
             (hw->dispatch.empty() ? " (software queue)" : " (dispatch list)") +
             " and nobody will run it, although the queue is not quiesced";
    }
    return std::nullopt;
  }

  bool quiesced() const { return quiesce_.quiesced(); }
  QuiesceState<P>& quiesce_state() { return quiesce_; }
  Driver& driver() { return driver_; }
  RunCounters& counters() { return counters_; }
  std::size_t hw_queues() const { return hw_.size(); }
  Hw& hw_queue(std::size_t i) { return *hw_[i]; }

 private:
  bool get_budget(Hw& hw) {
    if (driver_.get_budget(hw)) return true;
    ++counters_.budget_refused;
    return false;
  }

  Kblockd<P>& kblockd_;
  Driver& driver_;
  QuiesceState<P> quiesce_;
  RunCounters counters_;
  std::vector<std::unique_ptr<Hw>> hw_;
  Dispatcher<P, RunQueue> dispatcher_;
};

}  // namespace mqlab::blk
