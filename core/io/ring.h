// A minimal io_uring on raw system calls.
//
// Purpose: control commands (IORING_OP_URING_CMD), small servers and readers
// need a ring that links statically and works with kernel headers older than
// the kernel it runs on. It has what those need and no more: fill entries,
// submit, reap one or many with a time limit, register files and buffers.
//
// Thread safety: none. A ring belongs to the thread that uses it; make one a
// thread. It may be created by one thread and handed to another before use,
// unless it is a lean one: that stays where it was made.
//
// Invariants: entries handed out by next_sqe() are zeroed; they reach the
// kernel at the next submit() or wait(), in order.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

struct io_uring_sqe;

namespace mqlab::io {

struct RingOptions {
  unsigned entries = 8;
  bool sqe128 = false;      // 128-byte entries: 80 bytes of command area
  unsigned cq_entries = 0;  // completions that it holds; 0: twice the entries
  // One thread makes it, submits and reaps, and completions reach it only when it waits: cheaper for the kernel.
  // What an older kernel does not know of this is left out; describe() says what is used.
  bool lean = false;
};

struct Completion {
  std::uint64_t user_data = 0;
  std::int32_t result = 0;
};

class Ring {
 public:
  // Throws kUnsupported with the true cause when the kernel or its settings
  // refuse io_uring, kSystem on anything else.
  explicit Ring(const RingOptions& options);
  ~Ring();
  Ring(Ring&&) noexcept;
  Ring& operator=(Ring&&) noexcept;
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // The next free entry, zeroed, or nullptr when the queue is full.
  io_uring_sqe* next_sqe();

  // Command area of an entry: 16 bytes, 80 with sqe128.
  static std::byte* command_area(io_uring_sqe* sqe);

  // Hands all filled entries to the kernel. Does not wait.
  void submit();

  // Submits what is filled, then waits for one completion. Nothing is returned
  // when the limit passes first.
  std::optional<Completion> wait(std::chrono::nanoseconds limit);

  // Submits what is filled and waits until `count` completions lie ready. False when the limit passes first. With a
  // count of 0 it does not wait, but lets the kernel hand over what is done.
  bool submit_and_wait(unsigned count, std::chrono::nanoseconds limit);

  // Takes completions that are already there, as many as fit. Returns how many.
  std::size_t pop_all(std::span<Completion> out);

  // How many workers the kernel lets this ring's owner have for commands that sleep: bounded, unbounded. Nothing
  // where the kernel does not say (before 5.15).
  std::optional<std::array<std::uint32_t, 2>> worker_limits() const;

  // A completion that is already there.
  std::optional<Completion> try_pop();

  // Files and one buffer that entries may then name by index, which saves the kernel looking them up for each. False
  // where the kernel refuses, for want of locked memory for instance; then entries name them as usual.
  bool register_files(std::span<const int> files);
  bool register_buffer(std::span<std::byte> buffer);

  // The flags of the ring by name, as the kernel took them: "SQE128", "COOP_TASKRUN SINGLE_ISSUER", "plain".
  std::string describe() const;

 private:
  struct Mapped;
  std::unique_ptr<Mapped> mapped_;
};

}  // namespace mqlab::io
