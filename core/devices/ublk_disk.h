// One live ublk disk with a null server of our own in this process: there after construction, gone after remove() or
// destruction, also when a step of either failed.
//
// Thread safety: belongs to one thread; the disk itself may be read by any.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "devices/ublk_control.h"
#include "devices/ublk_server.h"

namespace mqlab::devices {

struct UblkDiskRequest {
  std::uint16_t queues = 1;
  std::uint16_t depth = 128;
  std::uint64_t size_bytes = 1ULL << 30U;
  CompletionOrder order;
  std::chrono::milliseconds limit{30000};  // of each control command
};

class UblkDisk {
 public:
  // Throws kUnsupported where ublk is missing or forbidden, kSystem or kTimeout when a command fails.
  explicit UblkDisk(const UblkDiskRequest& request);
  ~UblkDisk();
  UblkDisk(const UblkDisk&) = delete;
  UblkDisk& operator=(const UblkDisk&) = delete;

  std::string path() const;        // /dev/ublkbN
  std::string queue_path() const;  // /sys/block/ublkbN/queue
  const ublk::DevInfo& info() const noexcept { return info_; }
  const UblkNullServer& server() const { return *server_; }

  // Stops and deletes it. Throws what a step threw; a second call does nothing.
  void remove();

 private:
  void start(const UblkDiskRequest& request);
  void give_up() noexcept;

  UblkControl control_;
  ublk::DevInfo info_;
  std::unique_ptr<UblkNullServer> server_;
  bool present_ = true;
};

}  // namespace mqlab::devices
