// A ublk server with the null target: each request is answered with success
// and no data moves. It is there to make devices live, so that their whole life
// can be timed, and to complete requests in a given order.
//
// All that arrived is looked at together, and all answers of one look go to the
// kernel together. Requests that are held back (hold_back.h) are let go when
// none has come for some milliseconds, so that nobody waits for them for ever.
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

#include "devices/hold_back.h"
#include "devices/ublk_abi.h"

namespace mqlab::devices {

class UblkNullServer {
 public:
  // Opens /dev/ublkcN, maps the descriptors, starts the queue threads.
  explicit UblkNullServer(const ublk::DevInfo& info, const CompletionOrder& order = {});
  ~UblkNullServer();
  UblkNullServer(const UblkNullServer&) = delete;
  UblkNullServer& operator=(const UblkNullServer&) = delete;

  // Waits for the queue threads, which end at STOP_DEV; rethrows what one threw.
  void join();

  // Gives rings, mappings and the character device back to the kernel.
  void close_device();

  std::uint64_t requests_served() const;

  // How often a queue let go what it held back, since no more came.
  std::uint64_t times_let_go() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Parameters of a disk of `size_bytes` with 512-byte blocks.
ublk::Params basic_params(std::uint64_t size_bytes, std::uint32_t max_io_buf_bytes);

}  // namespace mqlab::devices
