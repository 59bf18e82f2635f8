#include "devices/ublk_control.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

#include "base/descriptor.h"
#include "base/error.h"
#include "io/ring.h"
#include "io/uring_abi.h"

namespace mqlab::devices {
namespace {

constexpr std::chrono::milliseconds kBusyLimit{2000};
constexpr std::chrono::milliseconds kBusyPause{10};
// Greater than any id that the driver gives.
constexpr std::uint32_t kNoDevice = 0x7ffffff0;
// What drivers answer to a command that they do not know; the last one is the kernel's own ENOTSUPP.
constexpr bool is_unknown_command(std::int32_t result) {
  return result == -EOPNOTSUPP || result == -ENOTTY || result == -EINVAL || result == -524;
}

constexpr const char* kControlPath = "/dev/ublk-control";

// ADD_DEV and SET_PARAMS go through the longest buffer that any command needs.
union CommandBuffer {
  ublk::DevInfo info;
  ublk::Params params;
  std::uint64_t features;
};

int open_control() {
  const int fd = open(kControlPath, O_RDWR | O_CLOEXEC);
  if (fd >= 0) return fd;
  const int err = errno;
  const std::string what = std::string("opening ") + kControlPath + " was answered with " + std::strerror(err);
  if (err == ENOENT || err == ENODEV || err == ENXIO) {
    throw Error(ErrorKind::kUnsupported, what, "load the module ublk_drv (Linux 6.0 or newer, CONFIG_BLK_DEV_UBLK)",
                err);
  }
  if (err == EACCES || err == EPERM) {
    throw Error(ErrorKind::kUnsupported, what, "run as root, or use the target vm", err);
  }
  throw Error(ErrorKind::kSystem, what, "see errno in open(2)", err);
}

const char* remedy_of(std::uint32_t op, int err) {
  switch (err) {
    case EPERM:
    case EACCES:
      return op == ublk::kCmdAddDev ? "run as root, or raise ublk_drv.ublks_max"
                                    : "run as the owner of the device or as root";
    case ENODEV:
      return "the device is gone: list /dev/ublkc* to see which there are";
    case EEXIST:
      return "the id or the device is in use: delete it first, or ask for another id";
    case EBUSY:
      return "something holds the device open (a server, udev, a mount): close it and try again";
    case ENOMEM:
      return "free memory, or ask for fewer devices, queues or a smaller depth";
    case ENOSPC:
      return "all device ids are taken: delete devices, or raise ublk_drv.ublks_max";
    case EINVAL:
    case EOPNOTSUPP:
      return "this kernel's ublk does not know the command or the values: see its version";
    default:
      return "see the kernel log (dmesg) for ublk's own words";
  }
}

std::string describe(std::string_view name, std::uint32_t id) {
  std::string text = "ublk ";
  text += name;
  if (id != ublk::kAnyDevice) text += " of device " + std::to_string(id);
  return text;
}

void throw_unless_gone(std::uint32_t op, std::string_view name, std::uint32_t id, std::int32_t result) {
  if (result >= 0 || result == -ENODEV) return;
  throw Error(ErrorKind::kSystem, describe(name, id) + " was answered with " + std::strerror(-result),
              remedy_of(op, -result), -result);
}

}  // namespace

struct UblkControl::State {
  explicit State(std::chrono::milliseconds time_limit)
      : limit(time_limit), fd(open_control()), ring({.entries = 4, .sqe128 = true}) {}

  std::chrono::milliseconds limit;
  Descriptor fd;
  io::Ring ring;
  CommandBuffer buffer{};
};

UblkControl::UblkControl(std::chrono::milliseconds limit) : state_(std::make_unique<State>(limit)) {}
UblkControl::~UblkControl() = default;

UblkControl::State& UblkControl::live() {
  if (state_ == nullptr) {
    throw Error(ErrorKind::kTimeout, "a ublk command was not tried",
                "an earlier command on this control ring never ended: see dmesg for a hung task");
  }
  return *state_;
}

std::int32_t UblkControl::execute(std::uint32_t op, std::string_view name, const ublk::CtrlCmd& command) {
  const auto deadline = std::chrono::steady_clock::now() + kBusyLimit;
  for (;;) {
    const std::int32_t result = execute_once(op, name, command);
    if (result != -EBUSY || std::chrono::steady_clock::now() >= deadline) return result;
    std::this_thread::sleep_for(kBusyPause);
  }
}

std::int32_t UblkControl::execute_once(std::uint32_t op, std::string_view name, ublk::CtrlCmd command) {
  State& state = live();
  command.queue_id = ublk::kNoQueue;
  io_uring_sqe* sqe = state.ring.next_sqe();
  if (sqe == nullptr) throw Error(ErrorKind::kInternal, "the control ring is full", "report this");
  io::set_uring_command(*sqe, op);
  sqe->fd = state.fd.get();
  std::memcpy(io::Ring::command_area(sqe), &command, sizeof command);
  const auto completion = state.ring.wait(state.limit);
  if (!completion) {
    // The kernel still owns the buffer and the ring's command: never free them.
    static_cast<void>(state_.release());
    throw Error(ErrorKind::kTimeout,
                describe(name, command.dev_id) + " got no answer from the kernel within " +
                    std::to_string(state.limit.count()) + " ms",
                "look for a hung task or an oops in dmesg; after a failed START a STOP must come "
                "before DEL");
  }
  return completion->result;
}

std::int32_t UblkControl::require(std::uint32_t op, std::string_view name, const ublk::CtrlCmd& command) {
  const std::int32_t result = execute(op, name, command);
  if (result < 0) {
    throw Error(ErrorKind::kSystem, describe(name, command.dev_id) + " was answered with " + std::strerror(-result),
                remedy_of(op, -result), -result);
  }
  return result;
}

std::uint32_t UblkControl::worker_limit() {
  // A command to a character device may block for ever, so it counts as unbounded work.
  const auto limits = live().ring.worker_limits();
  return limits ? limits->at(1) : 0;
}

std::uint64_t UblkControl::features() {
  CommandBuffer& buffer = live().buffer;
  buffer.features = 0;
  ublk::CtrlCmd command{};
  command.dev_id = ublk::kAnyDevice;
  command.addr = reinterpret_cast<std::uint64_t>(&buffer.features);
  command.len = sizeof buffer.features;
  return execute(ublk::kCmdGetFeatures, "GET_FEATURES", command) < 0 ? 0 : buffer.features;
}

void UblkControl::check_commands() {
  if (features() != 0) return;
  ublk::CtrlCmd command{};
  command.dev_id = kNoDevice;
  CommandBuffer& buffer = live().buffer;
  command.addr = reinterpret_cast<std::uint64_t>(&buffer.info);
  command.len = sizeof buffer.info;
  const std::int32_t result = execute(ublk::kCmdGetDevInfo, "GET_DEV_INFO", command);
  if (!is_unknown_command(result)) return;
  throw Error(ErrorKind::kUnsupported,
              std::string("ublk GET_FEATURES and GET_DEV_INFO were answered with ") + std::strerror(-result) +
                  ": this kernel's driver does not know commands in ioctl form",
              "use a kernel of 6.4 or newer", -result);
}

ublk::DevInfo UblkControl::add(const UblkAddRequest& request) {
  CommandBuffer& buffer = live().buffer;
  buffer.info = ublk::DevInfo{};
  buffer.info.nr_hw_queues = request.queues;
  buffer.info.queue_depth = request.depth;
  buffer.info.max_io_buf_bytes = request.max_io_buf_bytes;
  buffer.info.dev_id = request.id;
  buffer.info.ublksrv_pid = -1;
  buffer.info.flags = request.flags;
  ublk::CtrlCmd command{};
  command.dev_id = request.id;
  command.addr = reinterpret_cast<std::uint64_t>(&buffer.info);
  command.len = sizeof buffer.info;
  require(ublk::kCmdAddDev, "ADD_DEV", command);
  return buffer.info;
}

ublk::DevInfo UblkControl::info(std::uint32_t id) {
  CommandBuffer& buffer = live().buffer;
  buffer.info = ublk::DevInfo{};
  ublk::CtrlCmd command{};
  command.dev_id = id;
  command.addr = reinterpret_cast<std::uint64_t>(&buffer.info);
  command.len = sizeof buffer.info;
  require(ublk::kCmdGetDevInfo, "GET_DEV_INFO", command);
  return buffer.info;
}

void UblkControl::set_params(std::uint32_t id, const ublk::Params& params) {
  CommandBuffer& buffer = live().buffer;
  buffer.params = params;
  ublk::CtrlCmd command{};
  command.dev_id = id;
  command.addr = reinterpret_cast<std::uint64_t>(&buffer.params);
  command.len = sizeof buffer.params;
  require(ublk::kCmdSetParams, "SET_PARAMS", command);
}

void UblkControl::start(std::uint32_t id, std::int32_t server_pid) {
  ublk::CtrlCmd command{};
  command.dev_id = id;
  command.data = static_cast<std::uint64_t>(server_pid);
  require(ublk::kCmdStartDev, "START_DEV", command);
}

void UblkControl::stop(std::uint32_t id) {
  ublk::CtrlCmd command{};
  command.dev_id = id;
  require(ublk::kCmdStopDev, "STOP_DEV", command);
}

void UblkControl::del(std::uint32_t id) {
  ublk::CtrlCmd command{};
  command.dev_id = id;
  throw_unless_gone(ublk::kCmdDelDev, "DEL_DEV", id, execute(ublk::kCmdDelDev, "DEL_DEV", command));
}

void UblkControl::del_async(std::uint32_t id) {
  ublk::CtrlCmd command{};
  command.dev_id = id;
  const std::int32_t result = execute(ublk::kCmdDelDevAsync, "DEL_DEV_ASYNC", command);
  if (is_unknown_command(result)) {
    throw Error(ErrorKind::kUnsupported, describe("DEL_DEV_ASYNC", id) + " was answered with " + std::strerror(-result),
                "use a kernel of 6.9 or newer, or delete with DEL_DEV", -result);
  }
  throw_unless_gone(ublk::kCmdDelDevAsync, "DEL_DEV_ASYNC", id, result);
}

bool UblkControl::is_gone(std::uint32_t id) {
  CommandBuffer& buffer = live().buffer;
  ublk::CtrlCmd command{};
  command.dev_id = id;
  command.addr = reinterpret_cast<std::uint64_t>(&buffer.info);
  command.len = sizeof buffer.info;
  const std::int32_t result = execute(ublk::kCmdGetDevInfo, "GET_DEV_INFO", command);
  return result == -ENODEV;
}

}  // namespace mqlab::devices
