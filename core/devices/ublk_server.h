// A ublk server with the null target: each request is answered at once with
// success and no data moves. It is there to make devices live, so that their
// whole life can be timed.
//
// Thread safety: the object belongs to one thread; it runs one thread and one
// ring a queue inside.
//
// Life: construct after ADD_DEV and SET_PARAMS (fetches every tag in the
// background, so START_DEV may follow at once); after STOP_DEV call join(),
// then close_device(); the destructor does what is left of the two. Without
// STOP_DEV the queue threads end when the destructor wakes them.
#pragma once

#include <cstdint>
#include <memory>

#include "devices/ublk_abi.h"

namespace mqlab::devices {

class UblkNullServer {
 public:
  // Opens /dev/ublkcN, maps the descriptors, starts the queue threads.
  explicit UblkNullServer(const ublk::DevInfo& info);
  ~UblkNullServer();
  UblkNullServer(const UblkNullServer&) = delete;
  UblkNullServer& operator=(const UblkNullServer&) = delete;

  // Waits for the queue threads, which end at STOP_DEV; rethrows what one threw.
  void join();

  // Gives rings, mappings and the character device back to the kernel.
  void close_device();

  std::uint64_t requests_served() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Parameters of a disk of `size_bytes` with 512-byte blocks.
ublk::Params basic_params(std::uint64_t size_bytes, std::uint32_t max_io_buf_bytes);

}  // namespace mqlab::devices
