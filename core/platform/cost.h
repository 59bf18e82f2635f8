// What the engine charges in virtual time.
//
// Every cost that engine code charges is one entry of this table. A profile gives each entry a value in nanoseconds of
// CPU time; the structure (who holds which lock, which grace period is waited for) is never a cost and is the same for
// all profiles. A cost that a profile leaves out is an error, so that no figure rests on a forgotten default.
//
// Thread safety: the table is constant.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mqlab::platform {

enum class Cost : std::uint8_t {
  // Machine
  kAtomicLocal,
  kCachelineTransfer,
  kLockUncontended,
  kSpinHandover,
  kRtMutexSlowLock,
  kRtMutexSlowUnlock,
  kContextSwitch,
  kIdleExit,
  kWakeUp,
  kInterrupt,
  kSyscall,
  // RCU and SRCU
  kRcuGpStart,
  kRcuForceQs,
  kRcuGpCleanup,
  kRcuCore,
  kRcuCallback,
  kRcuExpedited,
  kSrcuCall,
  kSrcuScanPerCpu,
  kSrcuBarrierPerCpu,
  // Disks, queues and tag sets
  kAllocTagSet,
  kAllocSrcuPerCpu,
  kFreeSrcuPerCpu,
  kFreeTagSetPerQueue,
  kAddDisk,
  kDelDiskPrepare,
  kDelDiskSysfs,
  kDelDiskDevice,
  kDeviceNode,
  kElevatorExit,
  kDiskRelease,
  // Drivers
  kUblkAdd,
  kUblkStart,
  kUblkRemove,
  kUblkServerExit,
  kNullBlkGroup,
  kNvmeNsUnlink,
  kNvmeCtrlStop,
  kNvmeQueueStop,
  // I/O path
  kIoSubmit,
  kIoComplete,
  kRequestAlloc,
  kTagAllocSingle,
  kTagAllocBatch,
  kTagPerRequest,
  kTagFree,
  kTagFreeBatch,
  kRequestInit,
  kSbitmapWord,
  kPolledSubmit,
  kPolledComplete,
  kPollEmpty,
  kUringEnter,
  kFioSubmit,
  kFioComplete,
  kUblkIo,
  kUblkTurn,
  kRunHwQueue,
  kQuiesceCheck,
  kQueueWork,
  kScsiCompletion,
  kScsiDispatch,
  kScsiDeviceIo,
  kCostSpread,
  // Devices
  kNandRead,
  kNandReadSpread,
  kGen3SsdInterval,
  kGen4SsdInterval,
  kGen5SsdInterval,
  kOptaneRead,
  kOptaneReadSpread,
  kOptaneSlowOneIn,
  kOptaneSlowFactor,
  kCount,
};

inline constexpr std::size_t kCostCount = static_cast<std::size_t>(Cost::kCount);

struct CostInfo {
  std::string_view name;
  std::string_view help;
};

/// Names as profiles write them, in the order of `Cost`. Unit of every value: ns, unless the
/// help names another.
inline constexpr std::array<CostInfo, kCostCount> kCostInfo{{
    {"atomic_local", "an atomic operation on a line that this CPU touched last"},
    {"cacheline_transfer", "an atomic operation on a line that another CPU touched last"},
    {"lock_uncontended", "lock and unlock of a free sleeping lock or spinlock"},
    {"spin_handover", "from a spinlock's release to the spinning waiter's next instruction"},
    {"rt_mutex_slow_lock", "the slow path of taking an rt_mutex: queueing, priority inheritance"},
    {"rt_mutex_slow_unlock", "the slow path of releasing an rt_mutex, without the wake-up"},
    {"context_switch", "switching a CPU to a woken task"},
    {"idle_exit", "an idle CPU leaving its idle state, where a workload asks for it"},
    {"wake_up", "the waker's part of waking a sleeping task"},
    {"interrupt", "entry and exit of a timer tick that finds work"},
    {"syscall", "entry and exit of a control command"},
    {"rcu_gp_start", "the grace-period kthread starting a grace period"},
    {"rcu_force_qs", "one scan for quiescent states, for each CPU"},
    {"rcu_gp_cleanup", "the grace-period kthread ending a grace period"},
    {"rcu_core", "noticing a grace period's start or end on a CPU"},
    {"rcu_callback", "invoking one callback"},
    {"rcu_expedited", "an expedited grace period, seen by its caller"},
    {"srcu_call", "queueing an SRCU callback"},
    {"srcu_scan_per_cpu", "summing one CPU's SRCU reader counters"},
    {"srcu_barrier_per_cpu", "posting srcu_barrier()'s callback on one CPU"},
    {"alloc_tag_set", "allocating a tag set of one queue"},
    {"alloc_srcu_per_cpu", "allocating a tag set's own SRCU state, for each CPU"},
    {"free_srcu_per_cpu", "cleaning up a tag set's own SRCU state, for each CPU"},
    {"free_tag_set_per_queue", "freeing the request maps of one queue"},
    {"add_disk", "adding a disk: queue, sysfs, uevent"},
    {"del_disk_prepare", "deleting a disk until its queue is marked dead"},
    {"del_disk_sysfs", "removing the queue's sysfs and debugfs entries"},
    {"del_disk_device", "removing the disk's device"},
    {"device_node", "devtmpfs making or removing a device node"},
    {"elevator_exit", "detaching the elevator"},
    {"disk_release", "the last put of a disk"},
    {"ublk_add", "ADD_DEV without the tag set"},
    {"ublk_start", "START_DEV without the disk"},
    {"ublk_remove", "DEL_DEV without the tag set: character device and id"},
    {"ublk_server_exit", "the server's exit: rings, mappings and the character device's release"},
    {"null_blk_group", "configfs part of creating or destroying a null_blk device"},
    {"nvme_ns_unlink", "unlinking a namespace from its head and controller"},
    {"nvme_ctrl_stop", "stopping a controller before its namespaces are removed"},
    {"nvme_queue_stop", "stopping and freeing one transport queue"},
    {"io_submit", "an I/O's way down, without its tag"},
    {"io_complete", "an I/O's way up, without its tag"},
    {"request_alloc", "one call of the request allocator: finding the hardware queue, checks"},
    {"tag_alloc_single", "allocating one tag alone, without the atomic operations on the bitmap"},
    {"tag_alloc_batch", "asking for a batch of tags, without the atomic operations on the bitmap"},
    {"tag_per_request", "making a request of one tag of a batch"},
    {"tag_free", "freeing one tag alone, without the atomic operations on the bitmap"},
    {"tag_free_batch", "freeing one tag as part of a completion batch, without the atomic operations on the bitmap"},
    {"request_init", "initialising a request"},
    {"sbitmap_word", "looking for free bits in one word of a bitmap, without its atomic operations"},
    {"polled_submit", "a polled read's way down (io_uring, block layer, NVMe driver), without its request"},
    {"polled_complete", "a polled read's way up, without freeing its tag"},
    {"poll_empty", "a look at a completion queue that has nothing new"},
    {"uring_enter", "one io_uring_enter() with what it does once a call"},
    {"fio_submit", "fio's own work to prepare and queue one I/O, beyond what t/io_uring does"},
    {"fio_complete", "fio's own work when one I/O is done, beyond what t/io_uring does"},
    {"ublk_io", "a read through ublk: reader, driver and server, without its tag"},
    {"ublk_turn", "one turn of reader and ublk server: ring entries, wake-ups, task switches"},
    {"run_hw_queue", "running a hardware queue that has nothing to dispatch"},
    {"quiesce_check", "the check for a quiesced queue, inside its lock"},
    {"queue_work", "handing a hardware queue's run to a worker, without the wake-up"},
    {"scsi_completion", "a SCSI command's completion without running queues"},
    {"scsi_dispatch", "preparing a SCSI command and handing it to the controller"},
    {"scsi_device_io", "the device's time for one I/O while it always has others to do"},
    {"cost_spread",
     "how far each charge of a microsecond or more strays from its cost, evenly to both sides, in percent"},
    {"nand_read", "a random 4 KiB read of a flash SSD that has nothing else to do"},
    {"nand_read_spread", "how far reads of a flash SSD stray from nand_read, evenly to both sides, in percent"},
    {"gen3_ssd_interval", "the least time between two random reads of a PCIe Gen3 SSD under load"},
    {"gen4_ssd_interval", "the least time between two random reads of a PCIe Gen4 SSD under load"},
    {"gen5_ssd_interval", "the least time between two random reads of a PCIe Gen5 SSD under load"},
    {"optane_read", "a random read of an Optane SSD"},
    {"optane_read_spread", "how far reads of an Optane SSD stray from optane_read, evenly to both sides, in percent"},
    {"optane_slow_one_in", "one read of an Optane SSD in so many is slow (a number)"},
    {"optane_slow_factor", "a slow read of an Optane SSD, in percent of optane_read"},
}};

/// Values by `Cost`, in nanoseconds.
using CostTable = std::array<std::uint64_t, kCostCount>;

constexpr std::size_t index(Cost cost) { return static_cast<std::size_t>(cost); }

}  // namespace mqlab::platform
