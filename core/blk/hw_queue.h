// Hardware and software queues: where requests wait until they are dispatched.
//
// A request waits in the software queue of the CPU that submitted it, or, when it was refused by the driver or bypasses
// the software queues, in its hardware queue's dispatch list. Both are found without a lock by what they publish: the
// dispatch list's length, and a bit for each software queue.
//
// Thread safety: lists under their lock; has_pending() without any.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "blk/kblockd.h"
#include "blk/kernel_spinlock.h"

namespace mqlab::blk {

template <class P>
struct HwQueue;

/// What waits and is dispatched. Whoever allocates it owns it; it is in at most one list.
template <class P>
struct QueuedRequest {
  HwQueue<P>* hw_queue = nullptr;
  unsigned cpu = 0;            ///< that submitted it: says which software queue
  std::uint32_t owner = 0;     ///< the submitter's own
  std::uint64_t added_ns = 0;  ///< when it last began to wait
};

template <class P>
using RequestList = std::deque<QueuedRequest<P>*>;

template <class P>
struct SoftwareQueue {
  explicit SoftwareQueue(KernelKind kernel) : lock(kernel) {}
  KernelSpinlock<P> lock;
  RequestList<P> requests;
};

/// What it has done, for counters. Not atomic: meaningful in sim only.
struct RunCounters {
  std::uint64_t runs = 0;          ///< calls of run_hw_queue()
  std::uint64_t second_looks = 0;  ///< those that found nothing to do at first
  std::uint64_t delegated = 0;     ///< those that handed the work to kblockd
  std::uint64_t dispatched = 0;    ///< requests that the driver took
  std::uint64_t budget_refused = 0;
};

template <class P>
struct HwQueue {
  HwQueue(unsigned index_, std::vector<unsigned> cpus_, KernelKind kernel, std::function<void()> run)
      : index(index_), cpus(std::move(cpus_)), lock(kernel), run_work(std::move(run)) {
    for (std::size_t i = 0; i < cpus.size(); ++i) software.push_back(std::make_unique<SoftwareQueue<P>>(kernel));
  }

  /// Whether a run would find something. As the kernel's check, it does not see what a dispatcher holds in its hands.
  bool has_pending() const {
    return dispatch_length.load(std::memory_order_relaxed) > 0 || software_pending.load(std::memory_order_relaxed) != 0;
  }
  bool mapped_to(unsigned cpu) const {
    for (const unsigned own : cpus)
      if (own == cpu) return true;
    return false;
  }
  std::size_t software_index(unsigned cpu) const {
    for (std::size_t i = 0; i < cpus.size(); ++i)
      if (cpus[i] == cpu) return i;
    return 0;
  }
  /// The CPU that runs it next when kblockd does: round robin, eight times each.
  unsigned next_cpu() {
    constexpr unsigned kBatch = 8;
    if (++batch_ > kBatch) {
      batch_ = 1;
      next_ = (next_ + 1) % cpus.size();
    }
    return cpus[next_];
  }

  const unsigned index;
  const std::vector<unsigned> cpus;  ///< whose requests it takes, and that may run it; at most 64
  KernelSpinlock<P> lock;            ///< of the dispatch list
  RequestList<P> dispatch;
  typename P::template atomic<std::uint32_t> dispatch_length{0};  ///< published: others read it without the lock
  std::vector<std::unique_ptr<SoftwareQueue<P>>> software;
  typename P::template atomic<std::uint64_t> software_pending{0};  ///< a bit a software queue
  typename P::template atomic<std::uint32_t> needs_restart{0};     ///< run it when one of its requests completes
  typename Kblockd<P>::Work run_work;
  unsigned dispatch_busy = 0;  ///< moving average of refusals
  std::size_t dispatch_from = 0;

 private:
  std::size_t next_ = 0;
  unsigned batch_ = 0;
};

}  // namespace mqlab::blk
