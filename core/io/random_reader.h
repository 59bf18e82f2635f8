// Reads random blocks of files or devices through one ring, as t/io_uring of fio does: it fills what is free, a batch
// at most, hands it over in one call, and waits for `reap` completions in that same call when no further batch would
// fit. Each batch goes to one file, the files in turn.
//
// Files and buffer are registered with the ring where the kernel allows it. The clock is read twice a turn, so the
// latency of a read runs from the submission of its batch to the look that found it done.
//
// Thread safety: none; it belongs to the thread that makes it.
//
// Invariants: never more than `depth` reads are in flight; the seed alone decides which blocks are read in which order.
// A read that fails or comes back short throws; the destructor lets go of what is in flight without waiting.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "base/random.h"
#include "io/block_file.h"
#include "io/memory.h"
#include "io/ring.h"

namespace mqlab::io {

struct ReadShape {
  unsigned depth = 128;
  unsigned batch = 32;
  unsigned reap = 32;
  std::uint32_t block_bytes = 4096;
  // A device that answers nothing for so long is taken for stuck.
  std::chrono::milliseconds stall_limit{30000};
};

// A read that was completed, as a check of its content needs it.
struct DoneRead {
  std::size_t file;
  std::uint64_t offset_bytes;
  std::span<const std::byte> content;
};
using ReadCheck = std::function<void(const DoneRead&)>;

struct ReadCounts {
  std::uint64_t reads = 0;
  std::uint64_t submissions = 0;  // batches handed to the kernel
  Histogram latency_ns;
};

class RandomReader {
 public:
  // `files` must live as long as the reader. Throws kUsage for a shape that makes no sense on them.
  RandomReader(std::span<const BlockFile> files, const ReadShape& shape, Random random, ReadCheck check = {});

  // Submits and reaps once. Returns how many reads were completed.
  std::size_t turn();

  // Waits for all that is in flight.
  void drain();

  // What was completed since the last start_counting(), or since the beginning.
  void start_counting();
  const ReadCounts& counts() const noexcept { return counts_; }

  // How the ring was made, for the record: "SINGLE_ISSUER, registered files, registered buffer".
  std::string describe() const;

 private:
  struct Slot {
    std::size_t file = 0;
    std::uint64_t offset_bytes = 0;
    std::uint64_t submitted_ns = 0;
  };

  void submit(unsigned count);
  void fill(std::uint32_t slot, std::size_t file, std::uint64_t now_ns);
  std::size_t reap();
  void finish(const Completion& completion, std::uint64_t now_ns);
  std::span<std::byte> buffer_of(std::uint32_t slot) const;
  void wait(unsigned count);
  [[noreturn]] void fail(const Slot& slot, std::int32_t result) const;

  std::span<const BlockFile> files_;
  ReadShape shape_;
  Random random_;
  ReadCheck check_;
  std::vector<std::uint64_t> blocks_;  // of each file
  Memory memory_;
  Ring ring_;
  bool fixed_files_;
  bool fixed_buffer_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<Completion> done_;
  std::size_t next_file_ = 0;
  ReadCounts counts_;
};

}  // namespace mqlab::io
