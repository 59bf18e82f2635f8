// What the NVMe host does with the block layer when a controller is deleted.
//
// Source: drivers/nvme/host/{core,multipath,tcp}.c, drivers/nvme/target/{core,loop}.c of Linux 7.3 (behaviour).
// Deleting a controller removes its namespaces, then stops its queues. Removing a namespace waits for its head's SRCU
// twice (the first from idle and so expedited, the second right after and so not), deletes its disk, waits for the
// controller's SRCU, and, with its last path gone, deletes the multipath head's disk. Namespaces go one after another
// (`kSerial`) or each in a worker of its own (`kParallel`). tcp may block in dispatch, so its quiesce waits for SRCU;
// loop's waits for RCU, and the loop target's queues are percpu_refs of the same kernel, each killed and waited for in
// turn.
//
// Thread safety: one task deletes a controller.
#pragma once

#include <memory>
#include <vector>

#include "blk/gendisk.h"
#include "blk/tag_set.h"

namespace mqlab::drivers {

enum class NvmeTransport { kTcp, kLoop };
enum class NsRemoval { kSerial, kParallel };

struct NvmePolicies {
  NsRemoval removal = NsRemoval::kSerial;
  blk::ElvFlagLock elv_flag_lock = blk::ElvFlagLock::kWrite;
};

struct NvmeConfig {
  NvmeTransport transport = NvmeTransport::kTcp;
  unsigned namespaces = 64;
  unsigned queues = 4;
  unsigned depth = 128;
  blk::TagsSrcu tags_srcu = blk::TagsSrcu::kPerSet;
};

template <class P>
class NvmeController {
 public:
  using Cost = platform::Cost;
  struct Interval {
    std::uint64_t begin_ns;
    std::uint64_t end_ns;
  };

  NvmeController(blk::Kernel<P>& kernel, const NvmeConfig& config, const NvmePolicies& policies)
      : kernel_(kernel),
        config_(config),
        policies_(policies),
        io_set_(kernel, {config.queues, config.depth, config.transport == NvmeTransport::kTcp, config.tags_srcu}),
        admin_set_(kernel, {1, 32, config.transport == NvmeTransport::kTcp, config.tags_srcu}),
        srcu_(kernel.rcu_gp_wq) {}

  void connect() {
    admin_set_.alloc();
    io_set_.alloc();
    for (unsigned i = 0; i < config_.namespaces; ++i) {
      namespaces_.push_back(std::make_unique<Namespace>(kernel_, io_set_));
      namespaces_.back()->disk.add();
      namespaces_.back()->head_disk.add();
    }
    if (config_.transport == NvmeTransport::kLoop)
      for (unsigned i = 0; i <= config_.queues; ++i) target_queues_.push_back(std::make_unique<TargetQueue>(kernel_));
  }

  /// Removes all namespaces and stops the controller; returns when it is gone.
  void delete_ctrl() {
    P::charge(Cost::kSyscall);
    P::charge(Cost::kNvmeCtrlStop);
    kernel_.rcu.synchronize();  // the list of namespaces is taken away from its readers
    srcu_.synchronize();
    remove_namespaces();
    stop_queues(io_set_, config_.queues);
    stop_queues(admin_set_, 1);
    P::charge(Cost::kNvmeCtrlStop);
    blk::free_after_rcu(kernel_);
  }

  /// When each namespace's removal began and ended.
  const std::vector<Interval>& removals() const { return removals_; }

 private:
  struct Namespace {
    Namespace(blk::Kernel<P>& kernel, blk::TagSet<P>& set)
        : disk(kernel, &set), head_disk(kernel, nullptr), head_srcu(kernel.rcu_gp_wq) {}
    blk::Disk<P> disk;
    blk::Disk<P> head_disk;
    reclaim::Srcu<P> head_srcu;
  };

  struct TargetQueue {
    explicit TargetQueue(blk::Kernel<P>& kernel) : ref(kernel.rcu, [this] { free_done.complete(); }, true) {}
    typename P::completion confirm_done{"nvmet_sq confirm"};
    typename P::completion free_done{"nvmet_sq free"};
    reclaim::PercpuRef<P> ref;
  };

  void remove_namespaces() {
    if (policies_.removal == NsRemoval::kSerial) {
      for (auto& ns : namespaces_) remove(*ns);
      return;
    }
    typename P::completion all("async_synchronize");
    std::size_t left = namespaces_.size();
    if (left == 0) return;
    for (auto& ns : namespaces_)
      kernel_.async_wq.queue([this, &ns, &left, &all] {
        remove(*ns);
        if (--left == 0) all.complete();
      });
    all.wait();
  }

  void remove(Namespace& ns) {
    const std::uint64_t begin_ns = P::now_ns();
    ns.head_srcu.synchronize();
    {
      const platform::Guard<typename P::mutex> guard(subsystem_lock_);
      P::charge(Cost::kNvmeNsUnlink);
    }
    ns.head_srcu.synchronize();
    ns.disk.del(policies_.elv_flag_lock);
    {
      const platform::Guard<typename P::mutex> guard(namespaces_lock_);
      P::charge(Cost::kNvmeNsUnlink);
    }
    srcu_.synchronize();
    ns.head_srcu.synchronize();
    ns.head_disk.del(policies_.elv_flag_lock);
    ns.disk.put();
    ns.head_disk.put();
    ns.head_srcu.cleanup();
    removals_.push_back({begin_ns, P::now_ns()});
  }

  /// The transport's queues of one tag set, then the set.
  void stop_queues(blk::TagSet<P>& set, unsigned queues) {
    set.wait_quiesce_done();
    for (unsigned i = 0; i < queues; ++i) {
      P::charge(Cost::kNvmeQueueStop);
      if (target_queues_.empty()) continue;
      TargetQueue& queue = *target_queues_.back();
      queue.ref.kill([&queue] { queue.confirm_done.complete(); });
      queue.confirm_done.wait();
      queue.free_done.wait();
      target_queues_.pop_back();
    }
    set.free();
  }

  blk::Kernel<P>& kernel_;
  NvmeConfig config_;
  NvmePolicies policies_;
  blk::TagSet<P> io_set_;
  blk::TagSet<P> admin_set_;
  reclaim::Srcu<P> srcu_;
  typename P::mutex subsystem_lock_{"nvme subsystem lock"};
  typename P::mutex namespaces_lock_{"nvme namespaces_lock"};
  std::vector<std::unique_ptr<Namespace>> namespaces_;
  std::vector<std::unique_ptr<TargetQueue>> target_queues_;
  std::vector<Interval> removals_;
};

}  // namespace mqlab::drivers
