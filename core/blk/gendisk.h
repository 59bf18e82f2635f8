// A disk: added, deleted, put.
//
// Source: block/genhd.c, block/blk-sysfs.c, block/elevator.c of Linux 7.3 (behaviour). What deleting one waits for, in
// order: update_nr_hwq_lock; an expedited grace period (its bdi leaves the list); the freeze, that is a callback of
// call_rcu(); detaching the elevator, which quiesces the queue and so waits for another grace period (RCU, or the set's
// SRCU where dispatch may block). A disk without hardware queues (a multipath head) has no tag set, no lock and no
// elevator.
//
// QUEUE_FLAG_NO_ELV_SWITCH is set under update_nr_hwq_lock held for write (`kWrite`: each deletion then waits until the
// set's other deletions are through) or for read (`kRead`: they run at once).
//
// Thread safety: one task deletes a disk; several disks of a set may be deleted at once.
#pragma once

#include <optional>

#include "base/error.h"
#include "blk/freeze.h"
#include "blk/kernel.h"
#include "blk/tag_set.h"

namespace mqlab::blk {

/// `kNone` (the flag is never set) exists to show that the checks notice it.
enum class ElvFlagLock { kWrite, kRead, kNone };

template <class P>
class Disk {
 public:
  using Cost = platform::Cost;

  /// `set` is null for a disk that takes bios and has no hardware queues.
  Disk(Kernel<P>& kernel, TagSet<P>* set) : kernel_(kernel), set_(set), usage_(kernel, false) {}
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  void add() {
    P::charge(Cost::kAddDisk);
    change_device_node(kernel_);
    // A single hardware queue gets mq-deadline by default, several get none.
    if (set_ != nullptr && set_->config().queues == 1) elevator_.emplace(set_->make_map());
    usage_.switch_to_percpu();
    if (set_ != nullptr) set_->add_user(usage_);
  }

  void del(ElvFlagLock flag_lock) {
    if (set_ == nullptr) {
      del_locked();
      return;
    }
    if (flag_lock == ElvFlagLock::kWrite) {
      set_->update_nr_hwq_lock.down_write();
      no_elevator_switch_ = true;
      set_->update_nr_hwq_lock.up_write();
    }
    set_->update_nr_hwq_lock.down_read();
    no_elevator_switch_ = flag_lock != ElvFlagLock::kNone;
    del_locked();
    set_->update_nr_hwq_lock.up_read();
  }

  /// The last reference goes; its memory is freed after a grace period.
  void put() {
    P::charge(Cost::kDiskRelease);
    free_after_rcu(kernel_);
  }

  /// A switch from sysfs. Returns false when the disk is on its way out.
  bool switch_elevator(bool to_deadline) {
    if (set_ == nullptr) return false;
    set_->update_nr_hwq_lock.down_write();
    const bool allowed = !no_elevator_switch_;
    if (allowed) change_elevator(to_deadline);
    if (allowed && deleting_) throw Error(ErrorKind::kViolation, "an elevator switch ran while its disk was deleted");
    set_->update_nr_hwq_lock.up_write();
    return allowed;
  }

  QueueUsage<P>& usage() { return usage_; }
  bool has_elevator() const { return elevator_.has_value(); }

 private:
  void del_locked() {
    deleting_ = true;
    P::charge(Cost::kDelDiskPrepare);
    usage_.freeze_start();
    kernel_.rcu.synchronize_expedited();
    kernel_.writeback_wq.queue_and_wait([] {});  // flushes the writeback of its bdi
    remove_from_sysfs(Cost::kDelDiskSysfs, kQueueNodes + P::nr_cpus());
    if (set_ != nullptr) change_elevator(false);
    const std::size_t of_queues = set_ != nullptr ? set_->config().queues * kNodesPerQueue : 0;
    remove_from_sysfs(Cost::kDelDiskDevice, kDiskNodes + of_queues + P::nr_cpus() * kNodesPerCpu);
    change_device_node(kernel_);
    free_after_rcu(kernel_, kDeviceParts);
    usage_.freeze_wait();
    if (set_ == nullptr) return;
    for (unsigned i = 0; i < set_->config().queues; ++i) set_->free_flush_queue();
    set_->remove_user(usage_);
  }

  void remove_from_sysfs(Cost cost, std::size_t nodes) {
    const platform::Guard<typename P::mutex> guard(kernel_.sysfs_lock);
    P::charge(cost);
    free_after_rcu(kernel_, nodes);
  }

  void change_elevator(bool to_deadline) {
    usage_.freeze();
    elevator_lock_.lock();
    set_->wait_quiesce_done();
    std::optional<typename TagSet<P>::Map> old;
    old.swap(elevator_);
    if (to_deadline) elevator_.emplace(set_->make_map());
    elevator_lock_.unlock();
    usage_.unfreeze();
    if (!old) return;
    P::charge(Cost::kElevatorExit);
    set_->free_map(*old);
    free_after_rcu(kernel_);
  }

  // Callbacks of call_rcu(), counted on 7.3.4 with 2 and with 16 CPUs: nodes of sysfs and debugfs, and what goes with
  // the device.
  static constexpr std::size_t kQueueNodes = 84;
  static constexpr std::size_t kDiskNodes = 40;
  static constexpr std::size_t kNodesPerQueue = 57;
  static constexpr std::size_t kNodesPerCpu = 12;
  static constexpr std::size_t kDeviceParts = 39;

  Kernel<P>& kernel_;
  TagSet<P>* set_;
  QueueUsage<P> usage_;
  typename P::mutex elevator_lock_{"elevator_lock"};
  std::optional<typename TagSet<P>::Map> elevator_;
  bool no_elevator_switch_ = false;
  bool deleting_ = false;
};

}  // namespace mqlab::blk
