// percpu_ref: a reference count that is per CPU while it lives and atomic once it is killed.
//
// Source: lib/percpu-refcount.c (behaviour). kill() switches to atomic mode, which takes an RCU grace period; only
// after it can the count be seen to reach zero. A freeze of a queue is such a kill, and so waits for that grace period.
//
// Thread safety: get/tryget/put from anywhere; kill, resurrect and the switches from tasks, one at a time.
// Invariant: `release` runs once each time the count reaches zero in atomic mode.
#pragma once

#include <functional>
#include <utility>

#include "platform/concept.h"
#include "reclaim/rcu.h"

namespace mqlab::reclaim {

template <class P>
class PercpuRef {
 public:
  PercpuRef(Rcu<P>& rcu, std::function<void()> release, bool starts_percpu)
      : rcu_(rcu), release_(std::move(release)), percpu_(starts_percpu) {}

  void get() { count_.fetch_add(1, std::memory_order_relaxed); }
  bool tryget_live() {
    if (dying_) return false;
    get();
    return true;
  }
  bool tryget() {
    if (is_zero()) return false;
    get();
    return true;
  }
  void put() {
    // Release orders the user's accesses before the count that lets the owner go on.
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1 && atomic_visible_) release_();
  }

  /// Drops the initial reference and refuses tryget_live() from now on. `confirmed` runs when every CPU knows.
  void kill(std::function<void()> confirmed = {}) {
    dying_ = true;
    switch_to_atomic([this, confirmed = std::move(confirmed)] {
      if (confirmed) confirmed();
      put();  // the initial reference, which keeps the count above zero until every CPU counts atomically
    });
  }

  void switch_to_percpu() {
    if (force_atomic_ || dying_) return;
    percpu_ = true;
    atomic_visible_ = false;
  }

  /// Undoes a kill once the count has reached zero.
  void resurrect(bool force_atomic = false) {
    force_atomic_ = force_atomic_ || force_atomic;
    dying_ = false;
    get();
    switching_.wait([this] { return !switch_pending_; });
    switch_to_percpu();
  }

  bool is_zero() const { return atomic_visible_ && count_.load(std::memory_order_acquire) == 0; }
  bool dying() const { return dying_; }

 private:
  void switch_to_atomic(std::function<void()> done) {
    if (!percpu_) {
      atomic_visible_ = true;
      done();
      return;
    }
    percpu_ = false;
    switch_pending_ = true;
    rcu_.call([this, done = std::move(done)] {
      atomic_visible_ = true;
      switch_pending_ = false;
      done();
      switching_.wake_all();
    });
  }

  Rcu<P>& rcu_;
  std::function<void()> release_;
  typename P::template atomic<std::int64_t> count_{1};
  typename P::wait_queue switching_{"percpu_ref_switch"};
  bool percpu_;
  bool atomic_visible_ = false;
  bool dying_ = false;
  bool force_atomic_ = false;
  bool switch_pending_ = false;
};

}  // namespace mqlab::reclaim
