#include "plugin/block_table.h"

#include <cinttypes>
#include <utility>

namespace mqlab::plugin {

Block& BlockTable::block(std::uint64_t address, std::uint64_t instructions) {
  Block*& found = by_key_[{address, instructions}];
  if (found == nullptr) {
    blocks_.push_back({.address = address, .instructions = instructions});
    found = &blocks_.back();
  }
  return *found;
}

void BlockTable::begin_job() {
  end_job();
  job_runs_ = true;
}

void BlockTable::begin_window() {
  if (!job_runs_) return;
  for (Block& block : blocks_) block.runs_at_begin = block.runs;
  user_at_begin_ = user_;
  window_is_open_ = true;
}

void BlockTable::end_window() {
  if (!window_is_open_) return;
  window_is_open_ = false;
  // A block that was first met in the window has 0 at its begin.
  for (Block& block : blocks_) block.runs_in_windows += block.runs - block.runs_at_begin;
  job_.user += user_ - user_at_begin_;
  ++job_.windows;
}

void BlockTable::end_boot() {
  end_job();
  at_end_of_boot_ = sums();
}

BlockTable::Sums BlockTable::sums() const {
  Sums result{.other = user_};
  for (const Block& block : blocks_) result.kernel += block.runs * block.instructions;
  return result;
}

void BlockTable::end_job() {
  window_is_open_ = false;
  if (!job_runs_) return;
  for (Block& block : blocks_) {
    if (block.runs_in_windows != 0) job_.runs.push_back({&block, std::exchange(block.runs_in_windows, 0)});
  }
  jobs_.push_back(std::exchange(job_, {}));
  job_runs_ = false;
}

void BlockTable::write(std::FILE* out) {
  end_job();
  const Sums boot = at_end_of_boot_.value_or(sums());
  std::fprintf(out, "mqlab.counts/1\nboot %" PRIu64 " %" PRIu64 "\n", boot.kernel, boot.other);
  for (const Job& job : jobs_) {
    std::fprintf(out, "job %" PRIu64 " %" PRIu64 "\n", job.windows, job.user);
    for (const Run& run : job.runs) {
      std::fprintf(out, "%" PRIx64 " %" PRIu64 " %" PRIu64 "\n", run.block->address, run.block->instructions, run.runs);
    }
  }
}

}  // namespace mqlab::plugin
