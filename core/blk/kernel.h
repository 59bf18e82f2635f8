// What there is once in a kernel: RCU, the workqueues, the SRCU instance that tag sets may share, and the threads that
// every disk's removal passes through.
//
// Thread safety: as its members. Invariant: outlives every tag set, queue and driver built on it.
#pragma once

#include <cstddef>

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
  platform::WorkQueue<P> writeback_wq{"writeback"};
  platform::WorkQueue<P> devtmpfs{"kdevtmpfs", 0, 1};
  reclaim::Rcu<P> rcu{sync_wq};
  reclaim::Srcu<P> tags_srcu{rcu_gp_wq};
  /// kernfs_rwsem for write and the uevent sockets' mutex: device and sysfs removals of all disks pass through it.
  typename P::mutex sysfs_lock{"kernfs_rwsem"};
};

/// Callbacks of call_rcu() that only free memory. Removing sysfs and debugfs nodes, inodes and queues leaves some
/// hundred of them behind. They matter: they keep CPUs ticking and grace periods going, which later waiters then sit
/// out.
template <class P>
void free_after_rcu(Kernel<P>& kernel, std::size_t count = 1) {
  kernel.rcu.call_frees(count);
}

/// A task that has exited: its structure is freed after a grace period, and its credentials after another.
template <class P>
void free_task_after_rcu(Kernel<P>& kernel) {
  kernel.rcu.call([&kernel] { free_after_rcu(kernel); });
}

/// The node in /dev comes or goes by devtmpfs' own thread, on whose CPU its inode is then freed.
template <class P>
void change_device_node(Kernel<P>& kernel) {
  constexpr std::size_t kInodeAndNames = 3;
  kernel.devtmpfs.queue_and_wait([&kernel] {
    P::charge(platform::Cost::kDeviceNode);
    free_after_rcu(kernel, kInodeAndNames);
  });
}

}  // namespace mqlab::blk
