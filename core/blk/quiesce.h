// The quiesce state of a request queue, and what guards it against a queue run that looks at the wrong moment.
//
// Quiescing nests: the queue is quiesced while the depth is above zero. Whoever adds a request while the queue is
// quiesced must not run it, and relies on unquiesce() to run all queues. So of these two, at least one must see the
// other:
//
//     adds a request, then reads "quiesced"      clears "quiesced", then reads "has requests"
//
// On hardware that lets a load pass an earlier store (all of it), both may miss, and the request waits for ever: a lost
// queue run. What prevents it is the guard:
//
//   kSpinlock      queue_lock, a spinlock_t: a queue run that finds nothing to do looks again under it
//   kRawSpinlock   the same with a lock of its own that spins on PREEMPT_RT too
//   kAtomicDepth   the depth is an atomic and is itself the flag; a full barrier before the second look
//   kBarriers      no second look: a full barrier wherever a request is added (request_added())
//   kNone          no second look and no barrier: loses queue runs, and is there to show that the others do not
//   kAtomicDepthAlone  the atomic depth as first proposed, without the barrier: loses queue runs as well
//
// Thread safety: all functions from any task; not from interrupts. Source: block/blk-mq.c of Linux 7.3 (behaviour).
#pragma once

#include <cstdint>

#include "blk/kernel_spinlock.h"

namespace mqlab::blk {

enum class QuiesceGuard { kSpinlock, kRawSpinlock, kAtomicDepth, kBarriers, kNone, kAtomicDepthAlone };

/// The places of this engine that add a request where a queue run looks for it, and then run the queue.
enum class AddSite : std::uint8_t { kInsertToSoftwareQueue, kBypassInsert, kDispatchLeftover, kCount };

struct QuiesceConfig {
  QuiesceGuard guard = QuiesceGuard::kSpinlock;
  KernelKind kernel = KernelKind::kPreemptRt;
  bool top_waiter_spins = true;
  AddSite unpaired = AddSite::kCount;  ///< with kBarriers, the one site whose barrier was forgotten
};

template <class P>
class QuiesceState {
 public:
  using Cost = platform::Cost;

  explicit QuiesceState(const QuiesceConfig& config)
      : config_(config), queue_lock_(config.kernel, config.top_waiter_spins) {}

  /// Nobody starts to dispatch any more; who does already is not waited for.
  void quiesce() {
    if (depth_is_flag()) {
      depth_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    lock();
    if (depth_.fetch_add(1, std::memory_order_relaxed) == 0) flag_.fetch_or(1, std::memory_order_relaxed);
    unlock();
  }

  /// True when the queue is quiesced no more: then the caller runs all hardware queues.
  [[nodiscard]] bool unquiesce() {
    // Sequentially consistent, thus a full barrier: the caller looks for requests next.
    if (depth_is_flag()) return depth_.fetch_sub(1) == 1;
    lock();
    const bool last = depth_.fetch_sub(1, std::memory_order_relaxed) == 1;
    if (last) flag_.fetch_and(0, std::memory_order_relaxed);
    unlock();
    // The caller looks for requests next: without this, it may look before the flag's change is seen.
    if (config_.guard == QuiesceGuard::kBarriers) P::smp_mb();
    return last;
  }

  bool quiesced() const {
    return depth_is_flag() ? depth_.load(std::memory_order_relaxed) > 0 : flag_.load(std::memory_order_relaxed) != 0;
  }

  /// To be called after a request was added at `site` and before the queue is run.
  void request_added(AddSite site) {
    // Pairs with unquiesce(): without it, "quiesced" may be read before the request can be seen.
    if (config_.guard == QuiesceGuard::kBarriers && site != config_.unpaired) P::smp_mb();
  }

  /// The second look of a queue run whose first look said that there is nothing to do.
  template <class NeedRun>
  bool look_again(NeedRun&& need_run) {
    switch (config_.guard) {
      case QuiesceGuard::kSpinlock:
      case QuiesceGuard::kRawSpinlock: {
        lock();
        P::charge(Cost::kQuiesceCheck);
        const bool need = need_run();
        unlock();
        return need;
      }
      case QuiesceGuard::kAtomicDepth:
        // Pairs with the atomic decrement of unquiesce(): a request added before is now seen by it, or its
        // decrement is seen below.
        P::smp_mb();
        return need_run();
      default:
        return false;
    }
  }

  const QuiesceConfig& config() const { return config_; }
  const auto& lock_stats() const {
    return config_.guard == QuiesceGuard::kRawSpinlock ? raw_lock_.stats() : queue_lock_.stats();
  }

 private:
  bool depth_is_flag() const {
    return config_.guard == QuiesceGuard::kAtomicDepth || config_.guard == QuiesceGuard::kAtomicDepthAlone;
  }
  void lock() { config_.guard == QuiesceGuard::kRawSpinlock ? raw_lock_.lock() : queue_lock_.lock(); }
  void unlock() { config_.guard == QuiesceGuard::kRawSpinlock ? raw_lock_.unlock() : queue_lock_.unlock(); }

  QuiesceConfig config_;
  KernelSpinlock<P> queue_lock_;
  typename P::spinlock raw_lock_;
  typename P::template atomic<std::uint32_t> flag_{0};
  typename P::template atomic<std::uint32_t> depth_{0};
};

}  // namespace mqlab::blk
