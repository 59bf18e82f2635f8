// Dispatching: taking a hardware queue's requests to the driver until none is left or the driver refuses one.
//
// Leftovers go to the dispatch list, marked so that a completion runs the queue again; refusals by the budget are the
// driver's to make good, as SCSI does. Without an I/O scheduler. Source: block/blk-mq.c, blk-mq-sched.c of Linux 7.3.
//
// A driver is a class with
//   bool get_budget(HwQueue<P>&);  void put_budget(HwQueue<P>&);  bool queue_rq(HwQueue<P>&, QueuedRequest<P>&);
// queue_rq() takes the request or refuses it for lack of resources.
//
// Thread safety: any task; several may dispatch one hardware queue at once.
#pragma once

#include "blk/hw_queue.h"
#include "blk/quiesce.h"

namespace mqlab::blk {

template <class P, class Queue>
class Dispatcher {
 public:
  explicit Dispatcher(Queue& queue) : queue_(queue) {}

  /// The body of a queue run.
  void dispatch(HwQueue<P>& hw) {
    if (queue_.quiesced()) return;
    // A list that filled up meanwhile goes first; after two rounds somebody else goes on.
    if (dispatch_once(hw) && dispatch_once(hw)) queue_.run_hw_queue(hw, true);
  }

 private:
  // True when the dispatch list must be looked at again.
  bool dispatch_once(HwQueue<P>& hw) {
    RequestList<P> list = take_dispatch_list(hw);
    bool one_by_one = hw.dispatch_busy > 0;
    if (!list.empty()) {
      mark_restart(hw);
      if (!dispatch_list(hw, list, true)) return false;
      one_by_one = true;
    }
    if (one_by_one) return dispatch_from_software(hw);
    list = take_software_queues(hw);
    dispatch_list(hw, list, true);
    return false;
  }

  // Takes one at a time, with the budget in hand, so that requests stay where they can wait in order.
  bool dispatch_from_software(HwQueue<P>& hw) {
    for (;;) {
      if (hw.dispatch_length.load(std::memory_order_relaxed) > 0) return true;
      if (hw.software_pending.load(std::memory_order_relaxed) == 0) return false;
      if (!get_budget(hw)) return false;
      QueuedRequest<P>* const request = take_one(hw);
      if (request == nullptr) {
        queue_.driver().put_budget(hw);
        queue_.delay_run_hw_queues(kBudgetDelayMs);
        return false;
      }
      RequestList<P> list{request};
      if (!dispatch_list(hw, list, false)) return false;
    }
  }

  /// True when all went to the driver and there may be more.
  bool dispatch_list(HwQueue<P>& hw, RequestList<P>& list, bool needs_budget) {
    if (list.empty()) return false;
    bool no_resource = false;
    while (!list.empty()) {
      if (needs_budget && !get_budget(hw)) {
        no_resource = true;
        break;
      }
      if (!queue_.driver().queue_rq(hw, *list.front())) {
        // Its budget is the driver's to return; the driver refused after it had it.
        no_resource = true;
        break;
      }
      ++queue_.counters().dispatched;
      list.pop_front();
    }
    const bool leftover = !list.empty();
    if (leftover) put_back(hw, list, no_resource);
    update_busy(hw, leftover);
    return !leftover;
  }

  void put_back(HwQueue<P>& hw, RequestList<P>& list, bool no_resource) {
    hw.lock.lock();
    hw.dispatch.insert(hw.dispatch.end(), list.begin(), list.end());
    publish_length(hw);
    hw.lock.unlock();
    // Pairs with restart(): without it, the completion that clears the mark may not see these requests, while the
    // mark is still seen here.
    P::smp_mb();
    queue_.quiesce_state().request_added(AddSite::kDispatchLeftover);
    if (hw.needs_restart.load(std::memory_order_relaxed) == 0)
      queue_.run_hw_queue(hw, true);
    else if (no_resource)
      queue_.delay_run_hw_queue(hw, kResourceDelayMs);
  }

  RequestList<P> take_dispatch_list(HwQueue<P>& hw) {
    RequestList<P> list;
    if (hw.dispatch_length.load(std::memory_order_relaxed) == 0) return list;
    hw.lock.lock();
    list.swap(hw.dispatch);
    publish_length(hw);
    hw.lock.unlock();
    return list;
  }

  RequestList<P> take_software_queues(HwQueue<P>& hw) {
    RequestList<P> list;
    const std::uint64_t pending = hw.software_pending.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < hw.software.size(); ++i) {
      if ((pending >> i & 1) == 0) continue;
      SoftwareQueue<P>& software = *hw.software[i];
      software.lock.lock();
      list.insert(list.end(), software.requests.begin(), software.requests.end());
      software.requests.clear();
      hw.software_pending.fetch_and(~(std::uint64_t{1} << i), std::memory_order_relaxed);
      software.lock.unlock();
    }
    return list;
  }

  QueuedRequest<P>* take_one(HwQueue<P>& hw) {
    const std::size_t count = hw.software.size();
    for (std::size_t step = 0; step < count; ++step) {
      const std::size_t i = (hw.dispatch_from + step) % count;
      if ((hw.software_pending.load(std::memory_order_relaxed) >> i & 1) == 0) continue;
      SoftwareQueue<P>& software = *hw.software[i];
      QueuedRequest<P>* request = nullptr;
      software.lock.lock();
      if (!software.requests.empty()) {
        request = software.requests.front();
        software.requests.pop_front();
        if (software.requests.empty())
          hw.software_pending.fetch_and(~(std::uint64_t{1} << i), std::memory_order_relaxed);
      }
      software.lock.unlock();
      if (request == nullptr) continue;
      hw.dispatch_from = (i + 1) % count;
      return request;
    }
    return nullptr;
  }

  bool get_budget(HwQueue<P>& hw) {
    if (queue_.driver().get_budget(hw)) return true;
    ++queue_.counters().budget_refused;
    return false;
  }

  static void publish_length(HwQueue<P>& hw) {
    hw.dispatch_length.store(static_cast<std::uint32_t>(hw.dispatch.size()), std::memory_order_relaxed);
  }
  static void mark_restart(HwQueue<P>& hw) {
    if (hw.needs_restart.load(std::memory_order_relaxed) == 0) hw.needs_restart.fetch_or(1, std::memory_order_relaxed);
  }
  // A moving average over eight that only has to be zero or not.
  static void update_busy(HwQueue<P>& hw, bool busy) {
    hw.dispatch_busy = (hw.dispatch_busy * 7 + (busy ? 16U : 0U)) / 8;
  }

  static constexpr std::uint64_t kBudgetDelayMs = 3;
  static constexpr std::uint64_t kResourceDelayMs = 3;
  Queue& queue_;
};

}  // namespace mqlab::blk
