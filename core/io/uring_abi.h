// The parts of io_uring's kernel interface that are younger than the headers of distributions which we build on. The
// rest is taken from <linux/io_uring.h>. Checked against the system's header where that has them.
#pragma once

#include <linux/io_uring.h>

#include <cstddef>
#include <cstdint>

namespace mqlab::io {

inline constexpr std::uint8_t kOpUringCmd = 46;
inline constexpr std::uint32_t kSetupSqe128 = 1U << 10U;
inline constexpr std::uint32_t kSetupCoopTaskrun = 1U << 8U;
inline constexpr std::uint32_t kSetupSingleIssuer = 1U << 12U;
inline constexpr std::uint32_t kSetupDeferTaskrun = 1U << 13U;
inline constexpr std::uint32_t kSetupNoSqarray = 1U << 16U;
inline constexpr std::uint32_t kRegisterWorkerLimits = 19;  // IORING_REGISTER_IOWQ_MAX_WORKERS, an enumerator
inline constexpr std::size_t kCommandAreaOffset = 48;

// Makes the entry a command of the file's own driver. The operation shares its place with the first half of `off`;
// the second half must be zero.
inline void set_uring_command(io_uring_sqe& sqe, std::uint32_t operation) noexcept {
  sqe.opcode = kOpUringCmd;
  sqe.off = operation;
}

#ifdef IORING_SETUP_SQE128
static_assert(kOpUringCmd == IORING_OP_URING_CMD);
static_assert(kRegisterWorkerLimits == IORING_REGISTER_IOWQ_MAX_WORKERS);
static_assert(kSetupSqe128 == IORING_SETUP_SQE128);
static_assert(kSetupCoopTaskrun == IORING_SETUP_COOP_TASKRUN);
static_assert(kCommandAreaOffset == offsetof(io_uring_sqe, addr3));
static_assert(offsetof(io_uring_sqe, cmd_op) == offsetof(io_uring_sqe, off));
#endif
#ifdef IORING_SETUP_SINGLE_ISSUER
static_assert(kSetupSingleIssuer == IORING_SETUP_SINGLE_ISSUER);
#endif
#ifdef IORING_SETUP_DEFER_TASKRUN
static_assert(kSetupDeferTaskrun == IORING_SETUP_DEFER_TASKRUN);
#endif
#ifdef IORING_SETUP_NO_SQARRAY
static_assert(kSetupNoSqarray == IORING_SETUP_NO_SQARRAY);
#endif

}  // namespace mqlab::io
