// What the ublk driver does with the block layer when devices come and go.
//
// Source: drivers/block/ublk_drv.c of Linux 7.3 (behaviour). ADD_DEV and DEL_DEV take one mutex for all devices;
// STOP_DEV takes the device's own. DEL_DEV drops the last reference, and so frees the tag set, inside that mutex
// (`kUnderMutex`) or, in later kernels, after it (`kOutsideMutex`); either way it returns only when the id is free
// again. Commands may sleep, so io_uring hands them to a worker of the caller's and the caller waits for the
// completion.
//
// Thread safety: each device is driven by one task at a time; different devices by different tasks at once.
#pragma once

#include <memory>

#include "blk/gendisk.h"
#include "blk/tag_set.h"

namespace mqlab::drivers {

enum class UblkFinalPut { kUnderMutex, kOutsideMutex };

struct UblkPolicies {
  UblkFinalPut final_put = UblkFinalPut::kUnderMutex;
  blk::ElvFlagLock elv_flag_lock = blk::ElvFlagLock::kWrite;
};

template <class P>
class UblkDevice {
 public:
  UblkDevice(blk::Kernel<P>& kernel, const blk::TagSetConfig& config) : kernel_(kernel), set_(kernel, config) {}

  blk::TagSet<P>& set() { return set_; }

 private:
  template <class>
  friend class UblkControl;
  blk::Kernel<P>& kernel_;
  blk::TagSet<P> set_;
  std::unique_ptr<blk::Disk<P>> disk_;
  typename P::mutex mutex_{"ublk_device"};
  unsigned server_cpu_ = 0;
};

template <class P>
class UblkControl {
 public:
  using Cost = platform::Cost;

  UblkControl(blk::Kernel<P>& kernel, const UblkPolicies& policies) : kernel_(kernel), policies_(policies) {}

  void add_dev(UblkDevice<P>& device) {
    submit([&] {
      const platform::Guard<typename P::mutex> guard(ctl_mutex_);
      P::charge(Cost::kUblkAdd);
      device.set_.alloc();
      blk::change_device_node(kernel_);
    });
  }

  void start_dev(UblkDevice<P>& device) {
    submit([&] {
      const platform::Guard<typename P::mutex> guard(device.mutex_);
      P::charge(Cost::kUblkStart);
      device.server_cpu_ = next_server_cpu_++ % P::nr_cpus();
      device.disk_ = std::make_unique<blk::Disk<P>>(kernel_, &device.set_);
      device.disk_->add();
    });
  }

  void stop_dev(UblkDevice<P>& device) {
    submit([&] {
      const platform::Guard<typename P::mutex> guard(device.mutex_);
      stop_locked(device);
    });
  }

  /// The server's thread ends on its own CPU and closes the character device: task, files and rings go through RCU
  /// there. The scheduler has given each server's thread the next CPU.
  void server_exit(UblkDevice<P>& device) {
    const auto server = P::spawn({.name = "ublk server", .cpu = static_cast<int>(device.server_cpu_)}, [&device] {
      P::charge(Cost::kUblkServerExit);
      blk::free_after_rcu(device.kernel_, kServerParts);
      blk::free_task_after_rcu(device.kernel_);
    });
    P::join(server);
  }

  void del_dev(UblkDevice<P>& device) {
    submit([&] {
      ctl_mutex_.lock();
      {
        const platform::Guard<typename P::mutex> guard(device.mutex_);
        stop_locked(device);
      }
      P::charge(Cost::kUblkRemove);
      blk::free_after_rcu(kernel_, kCharDeviceNodes);
      blk::change_device_node(kernel_);
      blk::free_after_rcu(kernel_, kCharDeviceParts);
      if (policies_.final_put == UblkFinalPut::kUnderMutex) device.set_.free();
      ctl_mutex_.unlock();
      if (policies_.final_put == UblkFinalPut::kOutsideMutex) device.set_.free();
    });
  }

 private:
  // Callbacks of call_rcu(), counted on 7.3.4.
  static constexpr std::size_t kServerParts = 15;
  static constexpr std::size_t kCharDeviceNodes = 6;
  static constexpr std::size_t kCharDeviceParts = 8;

  template <class Command>
  void submit(Command&& command) {
    P::charge(Cost::kSyscall);
    typename P::completion done("io_uring completion");
    io_wq_.queue([&] {
      command();
      done.complete();
    });
    done.wait();
  }

  void stop_locked(UblkDevice<P>& device) {
    if (!device.disk_) return;
    device.disk_->del(policies_.elv_flag_lock);
    device.disk_->put();
    device.disk_.reset();
  }

  blk::Kernel<P>& kernel_;
  UblkPolicies policies_;
  platform::WorkQueue<P> io_wq_{"iou-wrk"};
  typename P::mutex ctl_mutex_{"ublk_ctl_mutex"};
  unsigned next_server_cpu_ = 0;
};

}  // namespace mqlab::drivers
