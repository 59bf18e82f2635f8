// Control commands of ublk: devices are added, described, started, stopped and
// deleted through /dev/ublk-control.
//
// Thread safety: none; one control a thread. Commands that may sleep are handed
// by the kernel to a worker of the ring's owner, so a shared ring would measure
// the queue in front of it.
//
// Invariants: a command that finds the device in use is tried again for a moment, since udev opens new devices. Each
// command ends within the limit or throws kTimeout. After a
// timeout the kernel may still write to the command's buffer, so the control
// keeps ring and buffer for ever and refuses further commands.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>

#include "devices/ublk_abi.h"

namespace mqlab::devices {

struct UblkAddRequest {
  std::uint32_t id = ublk::kAnyDevice;
  std::uint16_t queues = 1;
  std::uint16_t depth = 16;
  std::uint32_t max_io_buf_bytes = 64 * 1024;
  std::uint64_t flags = 0;
};

class UblkControl {
 public:
  // Throws kUnsupported where the driver or io_uring is missing or forbidden.
  explicit UblkControl(std::chrono::milliseconds limit = std::chrono::seconds(30));
  ~UblkControl();
  UblkControl(const UblkControl&) = delete;
  UblkControl& operator=(const UblkControl&) = delete;

  // Workers that the kernel lets a control have for commands that sleep; 0 where it does not say.
  std::uint32_t worker_limit();

  // Feature bits; 0 where the kernel does not know the question (before 6.5).
  std::uint64_t features();

  // Throws kUnsupported where the driver does not know commands in the form that is used here (before 6.4).
  void check_commands();

  // What the kernel made of the request: id, capped queues, granted flags.
  ublk::DevInfo add(const UblkAddRequest& request);
  ublk::DevInfo info(std::uint32_t id);
  void set_params(std::uint32_t id, const ublk::Params& params);

  // Blocks until the server of process `server_pid` has fetched every tag.
  void start(std::uint32_t id, std::int32_t server_pid);
  void stop(std::uint32_t id);

  // Returns once the id is free again. A device that is gone already is success.
  void del(std::uint32_t id);

  // Does not wait until the id is free. Throws kUnsupported where the kernel knows no such command (before 6.9).
  void del_async(std::uint32_t id);
  bool is_gone(std::uint32_t id);

 private:
  struct State;

  State& live();
  // Result of the command, negative errno included.
  std::int32_t execute(std::uint32_t op, std::string_view name, const ublk::CtrlCmd& command);
  std::int32_t execute_once(std::uint32_t op, std::string_view name, ublk::CtrlCmd command);
  std::int32_t require(std::uint32_t op, std::string_view name, const ublk::CtrlCmd& command);

  std::unique_ptr<State> state_;
};

}  // namespace mqlab::devices
