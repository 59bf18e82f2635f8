#include "io/random_reader.h"

#include <linux/io_uring.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace mqlab::io {
namespace {

void check_shape(std::span<const BlockFile> files, const ReadShape& shape) {
  if (files.empty() || shape.depth == 0 || shape.batch == 0 || shape.reap == 0) {
    throw Error(ErrorKind::kUsage, "a reader needs a file, and a depth, batch and reap of at least 1",
                "give all of them");
  }
}

std::vector<std::uint64_t> blocks_of(std::span<const BlockFile> files, const ReadShape& shape) {
  check_shape(files, shape);
  std::vector<std::uint64_t> blocks;
  for (const BlockFile& file : files) blocks.push_back(file.blocks_of(shape.block_bytes));
  return blocks;
}

std::vector<int> descriptors_of(std::span<const BlockFile> files) {
  std::vector<int> descriptors;
  for (const BlockFile& file : files) descriptors.push_back(file.descriptor());
  return descriptors;
}

}  // namespace

RandomReader::RandomReader(std::span<const BlockFile> files, const ReadShape& shape, Random random, ReadCheck check)
    : files_(files),
      shape_(shape),
      random_(random),
      check_(std::move(check)),
      blocks_(blocks_of(files, shape)),
      memory_(std::size_t{shape.depth} * shape.block_bytes),
      ring_({.entries = std::min(shape.batch, shape.depth), .cq_entries = shape.depth, .lean = true}),
      fixed_files_(ring_.register_files(descriptors_of(files))),
      fixed_buffer_(ring_.register_buffer(memory_.bytes())),
      slots_(shape.depth),
      done_(shape.depth) {
  // The first slot is used first.
  for (std::uint32_t slot = shape.depth; slot > 0; --slot) free_.push_back(slot - 1);
}

std::size_t RandomReader::turn() {
  const auto count = std::min(static_cast<unsigned>(free_.size()), shape_.batch);
  if (count > 0) submit(count);
  const auto in_flight = shape_.depth - static_cast<unsigned>(free_.size());
  const bool another_fits = count > 0 && in_flight + count <= shape_.depth;
  wait(another_fits ? 0 : std::min(in_flight, shape_.reap));
  return reap();
}

void RandomReader::drain() {
  while (free_.size() < slots_.size()) {
    wait(static_cast<unsigned>(slots_.size() - free_.size()));
    reap();
  }
}

void RandomReader::start_counting() { counts_ = {}; }

std::string RandomReader::describe() const {
  std::string text = "io_uring " + ring_.describe();
  if (fixed_files_) text += ", registered files";
  if (fixed_buffer_) text += ", registered buffer";
  return text;
}

void RandomReader::submit(unsigned count) {
  const std::uint64_t now_ns = monotonic_ns();
  const std::size_t file = next_file_;
  next_file_ = (next_file_ + 1) % files_.size();
  for (unsigned i = 0; i < count; ++i) {
    fill(free_.back(), file, now_ns);
    free_.pop_back();
  }
  ++counts_.submissions;
}

void RandomReader::fill(std::uint32_t slot, std::size_t file, std::uint64_t now_ns) {
  io_uring_sqe* const sqe = ring_.next_sqe();
  if (sqe == nullptr) throw Error(ErrorKind::kInternal, "the ring of a reader is full", "report this");
  const std::uint64_t offset_bytes = random_.below(blocks_[file]) * shape_.block_bytes;
  slots_[slot] = {file, offset_bytes, now_ns};
  sqe->opcode = fixed_buffer_ ? IORING_OP_READ_FIXED : IORING_OP_READ;
  sqe->flags = fixed_files_ ? IOSQE_FIXED_FILE : 0;
  sqe->fd = fixed_files_ ? static_cast<std::int32_t>(file) : files_[file].descriptor();
  sqe->off = offset_bytes;
  sqe->addr = reinterpret_cast<std::uint64_t>(buffer_of(slot).data());
  sqe->len = shape_.block_bytes;
  sqe->user_data = slot;
}

void RandomReader::wait(unsigned count) {
  if (ring_.submit_and_wait(count, shape_.stall_limit)) return;
  throw Error(ErrorKind::kTimeout,
              "reading " + files_[0].path() + (files_.size() > 1 ? " and others" : "") + ": " + std::to_string(count) +
                  " completions did not come within " + std::to_string(shape_.stall_limit.count()) + " ms",
              "is the device alive (dmesg)? A server that holds requests back needs a depth above what it holds");
}

std::size_t RandomReader::reap() {
  const std::size_t count = ring_.pop_all(done_);
  if (count == 0) return 0;
  const std::uint64_t now_ns = monotonic_ns();
  for (const Completion& completion : std::span(done_).first(count)) finish(completion, now_ns);
  return count;
}

void RandomReader::finish(const Completion& completion, std::uint64_t now_ns) {
  const auto number = static_cast<std::uint32_t>(completion.user_data);
  const Slot& slot = slots_[number];
  if (completion.result != static_cast<std::int32_t>(shape_.block_bytes)) fail(slot, completion.result);
  counts_.latency_ns.record(now_ns - slot.submitted_ns);
  ++counts_.reads;
  if (check_) check_({slot.file, slot.offset_bytes, buffer_of(number)});
  free_.push_back(number);
}

std::span<std::byte> RandomReader::buffer_of(std::uint32_t slot) const {
  return memory_.bytes().subspan(std::size_t{slot} * shape_.block_bytes, shape_.block_bytes);
}

void RandomReader::fail(const Slot& slot, std::int32_t result) const {
  const std::string what = "reading " + std::to_string(shape_.block_bytes) + " bytes of " + files_[slot.file].path() +
                           " at " + std::to_string(slot.offset_bytes);
  if (result < 0) throw system_error(what, -result, "see dmesg for the device's own words");
  throw Error(ErrorKind::kSystem, what + " gave only " + std::to_string(result) + " bytes",
              "did the file or device become smaller meanwhile?");
}

}  // namespace mqlab::io
