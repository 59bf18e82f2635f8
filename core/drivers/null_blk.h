// What the null_blk driver does with the block layer when its configfs devices come and go.
//
// Source: drivers/block/null_blk/main.c of Linux 7.3 (behaviour). One mutex for the driver is held over the whole
// creation or deletion of a device, the tag set included; the configfs part before and after is outside it.
//
// Thread safety: each device is driven by one task at a time; different devices by different tasks at once.
#pragma once

#include <memory>

#include "blk/gendisk.h"
#include "blk/tag_set.h"

namespace mqlab::drivers {

template <class P>
class NullBlkDevice {
 public:
  NullBlkDevice(blk::Kernel<P>& kernel, const blk::TagSetConfig& config) : set(kernel, config) {}
  blk::TagSet<P> set;
  std::unique_ptr<blk::Disk<P>> disk;
};

template <class P>
class NullBlk {
 public:
  using Cost = platform::Cost;

  NullBlk(blk::Kernel<P>& kernel, blk::ElvFlagLock elv_flag_lock) : kernel_(kernel), elv_flag_lock_(elv_flag_lock) {}

  void create(NullBlkDevice<P>& device) {
    P::charge(Cost::kNullBlkGroup);
    const platform::Guard<typename P::mutex> guard(lock_);
    device.set.alloc();
    device.disk = std::make_unique<blk::Disk<P>>(kernel_, &device.set);
    device.disk->add();
  }

  void destroy(NullBlkDevice<P>& device) {
    destroy_disk(device, [] {});
  }

  /// As destroy(); `users_gone` waits for those who may still hold the disk, between its deletion and its last put.
  template <class UsersGone>
  void destroy_disk(NullBlkDevice<P>& device, UsersGone&& users_gone) {
    P::charge(Cost::kSyscall);
    lock_.lock();
    device.disk->del(elv_flag_lock_);
    users_gone();
    device.disk->put();
    device.disk.reset();
    device.set.free();
    lock_.unlock();
    P::charge(Cost::kNullBlkGroup);
    blk::free_after_rcu(kernel_);
  }

 private:
  blk::Kernel<P>& kernel_;
  blk::ElvFlagLock elv_flag_lock_;
  typename P::mutex lock_{"null_blk lock"};
};

}  // namespace mqlab::drivers
