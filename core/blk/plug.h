// A plug: what a task collects before it hands it to the driver in one go, and the requests it allocated ahead.
//
// Source: block/blk-mq.c, block/blk-core.c of Linux 7.3 (behaviour). A plug that was announced for `nr_ios` I/Os asks
// for that many requests with its first; the others are cached for the I/Os that follow, as long as they go to the same
// queue: a cached request of another queue is of no use and stays where it is. What is left when the plug ends is
// freed, one tag at a time.
//
// Thread safety: of one task, as the stack it lies on. Invariant: finished (flush() or drop()) before it goes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "blk/request_alloc.h"

namespace mqlab::blk {

template <class P>
class Plug {
 public:
  static constexpr unsigned kMostIos = 32;

  Plug(unsigned nr_ios, const AllocPolicy& policy, AllocStats* stats = nullptr)
      : policy_(policy), stats_(stats), nr_ios_(std::min(nr_ios, kMostIos)) {}
  Plug(const Plug&) = delete;
  Plug& operator=(const Plug&) = delete;

  /// A request of the queue `queue`, whose hardware queue for the calling CPU `map()` gives: a cached one or a new one.
  /// Null if there is none and it may not wait.
  template <class Map, class Hooks = NoWaitHooks>
  Request<P>* request(const void* queue, Map&& map, const TagOptions& options = {}, Hooks&& hooks = {}) {
    Request<P>* const cached = cached_.peek();
    if (cached != nullptr && cached->user->queue() == queue) return cached_.pop();
    AllocData<P> data{.nr_tags = nr_ios_, .cached = &cached_, .options = options, .policy = policy_, .stats = stats_};
    nr_ios_ = 1;
    Request<P>* const request = alloc_requests<P>(map, data, hooks);
    // After a batch that came back whole nothing is missing; a plug that goes on takes single tags.
    if (policy_.plug_retry) nr_ios_ = data.nr_tags;
    return request;
  }

  /// Collects a request. When it says so, the plug is full and the caller dispatches what it holds.
  [[nodiscard]] bool add(Request<P>* request) {
    if (collected_.last() != nullptr && collected_.last()->user->queue() != request->user->queue())
      multiple_queues_ = true;
    collected_.add_tail(request);
    return ++count_ >= (multiple_queues_ ? 2 * kMostIos : kMostIos);
  }

  /// Hands over what was collected, in the order of submission.
  RequestList<P> take() {
    count_ = 0;
    return std::exchange(collected_, {});
  }
  bool empty() const { return count_ == 0; }

  /// Frees the cached requests that nobody used. To be called at the end of the plug and before the task sleeps.
  void drop_cached() {
    while (Request<P>* const request = cached_.pop()) {
      if (stats_ != nullptr) ++stats_->unused;
      free_request(*request);
    }
  }

  /// What the next allocation will ask for.
  unsigned nr_ios() const { return nr_ios_; }

 private:
  const AllocPolicy policy_;
  AllocStats* const stats_;
  unsigned nr_ios_;
  unsigned count_ = 0;
  bool multiple_queues_ = false;
  RequestList<P> cached_;
  RequestList<P> collected_;
};

}  // namespace mqlab::blk
