// A SCSI device: a budget of commands, and what a completion does for those that were refused one.
//
// Source: drivers/scsi/scsi_lib.c of Linux 7.3 (behaviour). A refused budget is counted; the next completion that finds
// the count above zero takes it and runs all hardware queues, for any of them may have been refused. That is when
// several irq threads run all queues of one device at once: with more commands in flight than the device's queue depth.
//
// Thread safety: all functions from any task.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "blk/run_queue.h"
#include "drivers/scsi_controller.h"

namespace mqlab::drivers {

enum class BudgetScope {
  kDevice,   ///< one budget; a completion runs all hardware queues
  kHwQueue,  ///< each hardware queue its share; a completion runs the queue of its own interrupt
};

struct ScsiConfig {
  unsigned queue_depth = 128;
  unsigned hw_queues = 8;
  BudgetScope budget = BudgetScope::kDevice;
  ControllerConfig controller{};
};

template <class P>
class ScsiDevice {
 public:
  using Cost = platform::Cost;
  using Request = blk::QueuedRequest<P>;
  using Hw = blk::HwQueue<P>;
  using Queue = blk::RunQueue<P, ScsiDevice>;

  /// `end_io` is called for each request that is done, before its tag is free again.
  ScsiDevice(blk::Kblockd<P>& kblockd, const ScsiConfig& config, const blk::QuiesceConfig& quiesce,
             std::function<void(Request&)> end_io)
      : config_(config),
        end_io_(std::move(end_io)),
        queue_(kblockd, *this, config.hw_queues, quiesce),
        budgets_(config.budget == BudgetScope::kDevice ? 1 : config.hw_queues),
        controller_(config.controller, [this](Request& request) { complete(request); }) {}

  // --- what blk/ asks of a driver ---
  bool get_budget(Hw& hw) {
    Budget& budget = budget_of(hw);
    if (take(budget)) return true;
    budget.refused.fetch_add(1, std::memory_order_relaxed);
    // Pairs with the completion, which returns its budget before it looks at the refusals: without it, both may miss.
    P::smp_mb();
    // Nothing in flight: no completion will come and make it good.
    if (budget.in_use.load(std::memory_order_relaxed) == 0) queue_.delay_run_hw_queues(kQueueDelayMs);
    return false;
  }
  void put_budget(Hw& hw) { budget_of(hw).in_use.fetch_sub(1); }
  bool queue_rq(Hw&, Request& request) {
    P::charge(Cost::kScsiDispatch);
    controller_.start(request);
    return true;
  }

  Queue& queue() { return queue_; }
  ScsiController<P>& controller() { return controller_; }
  std::uint64_t completed() const { return completed_; }
  std::uint64_t all_queue_runs() const { return all_queue_runs_; }

 private:
  struct Budget {
    typename P::template atomic<std::uint32_t> in_use{0};
    typename P::template atomic<std::uint32_t> refused{0};  ///< since the queues were last run for it
  };

  Budget& budget_of(const Hw& hw) { return budgets_[config_.budget == BudgetScope::kDevice ? 0 : hw.index]; }
  std::uint32_t limit() const {
    const auto shares = static_cast<std::uint32_t>(budgets_.size());
    return std::max(1U, config_.queue_depth / shares);
  }
  bool take(Budget& budget) {
    std::uint32_t used = budget.in_use.load(std::memory_order_relaxed);
    while (used < limit())
      if (budget.in_use.compare_exchange_weak(used, used + 1)) return true;
    return false;
  }

  // In the irq thread.
  void complete(Request& request) {
    Hw& hw = *request.hw_queue;
    P::charge(Cost::kScsiCompletion);
    put_budget(hw);
    P::charge(Cost::kIoComplete);
    end_io_(request);
    P::charge(Cost::kTagFree);
    ++completed_;
    queue_.restart(hw);
    run_refused(hw);
  }

  void run_refused(Hw& hw) {
    Budget& budget = budget_of(hw);
    std::uint32_t refused = budget.refused.load(std::memory_order_relaxed);
    // Another completion that takes the count runs the queues too.
    if (refused == 0 || !budget.refused.compare_exchange_strong(refused, 0)) return;
    if (config_.budget == BudgetScope::kHwQueue) {
      queue_.run_hw_queue(hw, true);
      return;
    }
    ++all_queue_runs_;
    queue_.run_hw_queues(true);
  }

  static constexpr std::uint64_t kQueueDelayMs = 3;
  ScsiConfig config_;
  std::function<void(Request&)> end_io_;
  Queue queue_;
  std::vector<Budget> budgets_;
  ScsiController<P> controller_;
  std::uint64_t completed_ = 0;
  std::uint64_t all_queue_runs_ = 0;
};

}  // namespace mqlab::drivers
