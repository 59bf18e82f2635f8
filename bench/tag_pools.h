// Pools of tags behind one interface: ours, and what one would write or take instead. get() takes up to `count` tags
// and says how many it got; put() gives them back.
#pragma once

#include <bit>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "blk/sbitmap_queue.h"
#include "platform/native/platform.h"

namespace mqlab::bench {

class OurTags {
 public:
  static constexpr const char* kName = "ours";
  explicit OurTags(unsigned depth) : tags_(depth) {}

  unsigned get(std::uint32_t* tags, unsigned count) {
    if (count == 1) {
      tags[0] = tags_.get();
      return tags[0] != blk::kNoBit ? 1 : 0;
    }
    const blk::BitBatch batch = tags_.get_batch(count);
    if (batch.mask != blk::low_bits(count)) return partial(batch, tags, count);
    for (unsigned i = 0; i < count; ++i) tags[i] = batch.offset + i;
    return count;
  }
  void put(const std::uint32_t* tags, unsigned count) {
    if (count == 1)
      tags_.clear(tags[0], native::Platform::this_cpu());
    else
      tags_.clear_batch(0, std::span(tags, count));
  }

 private:
  // As the block layer does it: what a fragmented word gave, or else a tag at a time.
  [[gnu::noinline]] unsigned partial(blk::BitBatch batch, std::uint32_t* tags, unsigned count) {
    unsigned got = 0;
    for (std::uint64_t left = batch.mask; left != 0; left &= left - 1)
      tags[got++] = batch.offset + static_cast<unsigned>(std::countr_zero(left));
    if (got != 0) return got;
    for (; got < count; ++got) {
      tags[got] = tags_.get();
      if (tags[got] == blk::kNoBit) break;
    }
    return got;
  }

  blk::SbitmapQueue<native::Platform> tags_;
};

/// The plain thing: one lock, next fit over words.
class MutexBitmap {
 public:
  static constexpr const char* kName = "peer:mutex_bitmap";
  explicit MutexBitmap(unsigned depth) : free_((depth + 63) / 64, ~std::uint64_t{0}) {}

  unsigned get(std::uint32_t* tags, unsigned count) {
    const std::lock_guard guard(mutex_);
    unsigned got = 0;
    for (std::size_t i = 0; i < free_.size() && got < count; ++i) {
      const std::size_t word = (hint_ + i) % free_.size();
      for (; free_[word] != 0 && got < count; free_[word] &= free_[word] - 1, hint_ = word)
        tags[got++] = static_cast<std::uint32_t>(word * 64) + static_cast<unsigned>(std::countr_zero(free_[word]));
    }
    return got;
  }
  void put(const std::uint32_t* tags, unsigned count) {
    const std::lock_guard guard(mutex_);
    for (unsigned i = 0; i < count; ++i) free_[tags[i] / 64] |= std::uint64_t{1} << (tags[i] % 64);
  }

 private:
  std::mutex mutex_;
  std::vector<std::uint64_t> free_;
  std::size_t hint_ = 0;
};

}  // namespace mqlab::bench
