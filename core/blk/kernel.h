// What there is once in a kernel: RCU, the workqueues, and the SRCU instance that tag sets may share.
//
// Thread safety: as its members. Invariant: outlives every tag set, queue and driver built on it.
#pragma once

#include "platform/workqueue.h"
#include "reclaim/rcu.h"
#include "reclaim/srcu.h"

namespace mqlab::blk {

template <class P>
struct Kernel {
  platform::WorkQueue<P> rcu_gp_wq{"rcu_gp"};
  platform::WorkQueue<P> sync_wq{"sync_wq"};
  platform::WorkQueue<P> system_wq{"events"};
  platform::WorkQueue<P> async_wq{"async"};
  reclaim::Rcu<P> rcu{sync_wq};
  reclaim::Srcu<P> tags_srcu{rcu_gp_wq};
  /// kernfs_rwsem for write and the uevent sockets' mutex: device and sysfs removals of all disks pass through it.
  typename P::mutex sysfs_lock{"kernfs_rwsem"};
};

/// One callback of call_rcu() that only frees memory. Removing sysfs nodes, inodes and queues leaves such callbacks
/// behind; they matter because they keep grace periods going that later waiters then have to sit out.
template <class P>
void free_after_rcu(Kernel<P>& kernel) {
  kernel.rcu.call([] {});
}

/// A task that has exited: its structure is freed after a grace period, and its credentials after another.
template <class P>
void free_task_after_rcu(Kernel<P>& kernel) {
  kernel.rcu.call([&kernel] { free_after_rcu(kernel); });
}

}  // namespace mqlab::blk
