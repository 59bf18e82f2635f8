// Freezing a queue: no new users, and a wait until those inside have left.
//
// Source: block/blk-mq.c of Linux 7.3 (behaviour). The usage counter is per CPU while the queue lives, so the first
// freeze waits for the grace period that makes it atomic; a freeze inside a freeze does not.
//
// Thread safety: enter/leave from anywhere; freezing from tasks.
#pragma once

#include "blk/kernel.h"
#include "reclaim/percpu_ref.h"

namespace mqlab::blk {

template <class P>
class QueueUsage {
 public:
  QueueUsage(Kernel<P>& kernel, bool percpu) : counter_(kernel.rcu, [this] { zero_.wake_all(); }, percpu) {}

  bool try_enter() { return counter_.tryget_live(); }
  void leave() { counter_.put(); }

  void freeze_start() {
    freeze_lock_.lock();
    const bool first = ++depth_ == 1;
    if (first) counter_.kill();
    freeze_lock_.unlock();
  }
  void freeze_wait() {
    zero_.wait([this] { return counter_.is_zero(); });
  }
  void freeze() {
    freeze_start();
    freeze_wait();
  }
  void unfreeze(bool force_atomic = false) {
    freeze_lock_.lock();
    if (--depth_ == 0) {
      counter_.resurrect(force_atomic);
      zero_.wake_all();
    }
    freeze_lock_.unlock();
  }
  void switch_to_percpu() { counter_.switch_to_percpu(); }
  unsigned depth() const { return depth_; }

 private:
  reclaim::PercpuRef<P> counter_;
  typename P::mutex freeze_lock_{"mq_freeze_lock"};
  typename P::wait_queue zero_{"mq_freeze_wq"};
  unsigned depth_ = 0;
};

}  // namespace mqlab::blk
