// Random reads by several threads, each with a reader of its own (random_reader.h), and what came of them.
//
// Measuring begins when every thread has its depth in flight and `warmup_reads` done, and ends for a thread at the
// first look that finds its share of `reads`, or `duration`, reached. What is in flight then is waited for and not
// counted, so a rate is completed reads over the time in which they completed, and the measured window (base/window.h)
// holds a steady state.
//
// Thread safety: jobs may run side by side; only one of them at a time may mark the window.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/random_reader.h"

namespace mqlab::io {

struct ReadJob {
  std::vector<std::string> paths;
  ReadShape shape;
  unsigned threads = 1;
  std::uint64_t seed = 1;
  std::uint64_t warmup_reads = 0;  // a thread
  // One of the two, or both: what comes first ends it.
  std::uint64_t reads = 0;  // of all threads together
  std::optional<std::chrono::nanoseconds> duration;
  bool pinned = false;        // thread t stays on the t-th CPU that it may use, in turn
  bool marks_window = false;  // the part that counts is a measured window
  ReadCheck check;            // called by the threads; must be thread safe when there are several
};

struct ReadOutcome {
  std::uint64_t reads = 0;
  std::uint64_t submissions = 0;
  std::uint64_t bytes = 0;
  std::uint64_t elapsed_ns = 0;  // to the last look of the last thread
  Histogram latency_ns;
  std::string ring;  // how the rings were made

  double reads_per_s() const noexcept;
  double mb_per_s() const noexcept;
};

// Throws what a thread threw (the others are stopped first), and Cancelled when base/cancel.h asks for it.
ReadOutcome run_read_job(const ReadJob& job);

}  // namespace mqlab::io
