// spinlock_t, whose nature is the kernel's: it spins on a normal kernel and is a sleeping rt_mutex on PREEMPT_RT.
//
// A platform without an rt_mutex (native) always spins.
// Thread safety: a lock. Not recursive.
#pragma once

#include "platform/concept.h"

namespace mqlab::blk {

enum class KernelKind { kNormal, kPreemptRt };

template <class P>
concept HasRtMutex = requires { typename P::rt_mutex; };

template <class P>
class KernelSpinlock {
 public:
  explicit KernelSpinlock([[maybe_unused]] KernelKind kind, bool top_waiter_spins = true)
    requires HasRtMutex<P>
      : sleeps_(kind == KernelKind::kPreemptRt), sleeping_(top_waiter_spins) {}

  void lock() { sleeps_ ? sleeping_.lock() : spinning_.lock(); }
  void unlock() { sleeps_ ? sleeping_.unlock() : spinning_.unlock(); }

  const auto& stats() const { return sleeps_ ? sleeping_.stats() : spinning_.stats(); }

 private:
  bool sleeps_;
  typename P::spinlock spinning_;
  typename P::rt_mutex sleeping_;
};

template <class P>
  requires(!HasRtMutex<P>)
class KernelSpinlock<P> {
 public:
  explicit KernelSpinlock(KernelKind, bool = true) {}
  void lock() { spinning_.lock(); }
  void unlock() { spinning_.unlock(); }

 private:
  typename P::spinlock spinning_;
};

}  // namespace mqlab::blk
