// The kernel's interface of ublk, as numbers and layouts.
//
// Purpose: distribution headers lag behind the kernels that we boot, so the
// names that mqlab uses are declared here once. ublk_abi_check.cc compares each
// of them with the system's header as far as that one goes.
//
// Thread safety: types and constants only.
#pragma once

#include <linux/ioctl.h>

#include <cstddef>
#include <cstdint>

namespace mqlab::devices::ublk {

// Argument of a control command; stands in the command area of a 128-byte entry.
struct CtrlCmd {
  std::uint32_t dev_id;
  std::uint16_t queue_id;  // 0xffff when the command is not for one queue
  std::uint16_t len;       // of the buffer at addr
  std::uint64_t addr;
  std::uint64_t data;
  std::uint16_t dev_path_len;
  std::uint16_t pad;
  std::uint32_t reserved;
};

struct DevInfo {
  std::uint16_t nr_hw_queues;
  std::uint16_t queue_depth;
  std::uint16_t state;
  std::uint16_t io_desc_size;  // padding before 7.3
  std::uint32_t max_io_buf_bytes;
  std::uint32_t dev_id;
  std::int32_t ublksrv_pid;
  std::uint32_t pad1;
  std::uint64_t flags;
  std::uint64_t ublksrv_flags;
  std::uint32_t owner_uid;
  std::uint32_t owner_gid;
  std::uint64_t reserved1;
  std::uint64_t reserved2;
};

struct ParamBasic {
  std::uint32_t attrs;
  std::uint8_t logical_bs_shift;
  std::uint8_t physical_bs_shift;
  std::uint8_t io_opt_shift;
  std::uint8_t io_min_shift;
  std::uint32_t max_sectors;
  std::uint32_t chunk_sectors;
  std::uint64_t dev_sectors;
  std::uint64_t virt_boundary_mask;
};

// Head of the parameters; the kernel takes a shorter length than its own.
struct Params {
  std::uint32_t len;
  std::uint32_t types;
  ParamBasic basic;
};

// Argument of an I/O command; stands in the command area of an entry.
struct IoCmd {
  std::uint16_t q_id;
  std::uint16_t tag;
  std::int32_t result;
  std::uint64_t addr;
};

// One request, written by the kernel, read through the descriptor mapping.
struct IoDesc {
  std::uint32_t op_flags;  // operation in the low 8 bits
  std::uint32_t nr_sectors;
  std::uint64_t start_sector;
  std::uint64_t addr;
};

inline constexpr std::uint32_t kCmdGetDevInfo = _IOR('u', 0x02, CtrlCmd);
inline constexpr std::uint32_t kCmdAddDev = _IOWR('u', 0x04, CtrlCmd);
inline constexpr std::uint32_t kCmdDelDev = _IOWR('u', 0x05, CtrlCmd);
inline constexpr std::uint32_t kCmdStartDev = _IOWR('u', 0x06, CtrlCmd);
inline constexpr std::uint32_t kCmdStopDev = _IOWR('u', 0x07, CtrlCmd);
inline constexpr std::uint32_t kCmdSetParams = _IOWR('u', 0x08, CtrlCmd);
inline constexpr std::uint32_t kCmdGetFeatures = _IOR('u', 0x13, CtrlCmd);  // since 6.5
inline constexpr std::uint32_t kCmdDelDevAsync = _IOR('u', 0x14, CtrlCmd);  // since 6.9

inline constexpr std::uint32_t kIoFetchReq = _IOWR('u', 0x20, IoCmd);
inline constexpr std::uint32_t kIoCommitAndFetchReq = _IOWR('u', 0x21, IoCmd);

inline constexpr std::int32_t kIoResOk = 0;
inline constexpr std::int32_t kIoResAbort = -19;  // -ENODEV: do not fetch again

inline constexpr std::uint32_t kParamTypeBasic = 1U << 0;

inline constexpr unsigned kMaxQueueDepth = 4096;
inline constexpr unsigned kMaxQueues = 4096;
inline constexpr std::uint32_t kAnyDevice = 0xffffffff;
inline constexpr std::uint16_t kNoQueue = 0xffff;

inline constexpr std::uint64_t kFeatureUserCopy = 1ULL << 7;

inline constexpr std::uint8_t kOpRead = 0;
inline constexpr std::uint8_t kOpWrite = 1;

}  // namespace mqlab::devices::ublk
