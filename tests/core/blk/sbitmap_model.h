// What a bitmap must do when one CPU uses it, bit by bit and without any word tricks: the truth that the tests hold it
// to.
#pragma once

#include <cstdint>
#include <vector>

#include "blk/sbitmap.h"

namespace mqlab::blk::testing {

class SbitmapModel {
 public:
  SbitmapModel(unsigned depth, unsigned shift, bool round_robin, unsigned hint)
      : bits_a_word_(1U << shift), round_robin_(round_robin), depth_(depth), hint_(hint), set_(depth), freed_(depth) {}

  unsigned hint() const { return hint_; }
  unsigned depth() const { return depth_; }
  bool held(unsigned bit) const { return set_[bit] && !freed_[bit]; }
  unsigned weight() const {
    unsigned count = 0;
    for (unsigned bit = 0; bit < depth_; ++bit) count += held(bit) ? 1 : 0;
    return count;
  }

  unsigned get() { return remember(search(round_robin_ ? hint_ % bits_a_word_ : 0, !round_robin_, depth_)); }
  unsigned get_shallow(unsigned shallow) { return remember(search(hint_ % bits_a_word_, true, shallow)); }

  BitBatch get_batch(unsigned wanted) {
    if (round_robin_) return {};
    for (unsigned turn = 0; turn < words(); ++turn) {
      const unsigned word = (hint_ / bits_a_word_ + turn) % words();
      const unsigned first = word * bits_a_word_;
      const unsigned end = first + size(word);
      move_freed(word);
      unsigned start = first;
      while (start < end && set_[start]) ++start;
      const bool only_top_free = start == end - 1;
      if (only_top_free || start + wanted > end) continue;
      BitBatch batch{0, start};
      for (unsigned i = 0; i < wanted; ++i) {
        if (set_[start + i]) continue;
        set_[start + i] = true;
        batch.mask |= std::uint64_t{1} << i;
      }
      advance_hint(start + wanted - 1);
      return batch;
    }
    return {};
  }

  void clear(unsigned bit, bool at_once) {
    if (at_once)
      set_[bit] = false;
    else
      freed_[bit] = true;
    if (!round_robin_ && bit < depth_) hint_ = bit;
  }

  void resize(unsigned depth) {
    for (unsigned word = 0; word < words(); ++word) move_freed(word);
    depth_ = depth;
  }

 private:
  unsigned words() const { return (depth_ + bits_a_word_ - 1) / bits_a_word_; }
  unsigned size(unsigned word) const { return word == words() - 1 ? depth_ - word * bits_a_word_ : bits_a_word_; }

  unsigned share(unsigned word, unsigned shallow) const {
    if (shallow >= depth_) return size(word);
    const unsigned long product = static_cast<unsigned long>(size(word)) * shallow;
    const bool up = product % depth_ >= static_cast<unsigned long>(word + 1) * size(word);
    return static_cast<unsigned>(product / depth_) + (up ? 1 : 0);
  }

  unsigned search(unsigned from, bool wraps, unsigned shallow) {
    for (unsigned turn = 0; turn < words(); ++turn, from = 0) {
      const unsigned word = (hint_ / bits_a_word_ + turn) % words();
      const unsigned first = word * bits_a_word_;
      const unsigned usable = share(word, shallow);
      for (int attempt = 0; attempt < 2; ++attempt) {
        for (unsigned i = from; i < usable; ++i)
          if (!set_[first + i]) return take(first + i);
        for (unsigned i = 0; wraps && i < from && i < usable; ++i)
          if (!set_[first + i]) return take(first + i);
        // Shallow users of a word without a share do not even look at what was freed there.
        if (usable == 0 || !move_freed(word)) break;
      }
    }
    return kNoBit;
  }

  unsigned take(unsigned bit) {
    set_[bit] = true;
    return bit;
  }

  bool move_freed(unsigned word) {
    bool any = false;
    for (unsigned bit = word * bits_a_word_; bit < word * bits_a_word_ + bits_a_word_ && bit < set_.size(); ++bit) {
      if (!freed_[bit]) continue;
      any = true;
      freed_[bit] = false;
      set_[bit] = false;
    }
    return any;
  }

  unsigned remember(unsigned bit) {
    if (bit == kNoBit)
      hint_ = 0;
    else
      advance_hint(bit);
    return bit;
  }
  void advance_hint(unsigned bit) {
    if (bit == hint_ || round_robin_) hint_ = bit + 1 >= depth_ - 1 ? 0 : bit + 1;
  }

  unsigned bits_a_word_;
  bool round_robin_;
  unsigned depth_;
  unsigned hint_;
  std::vector<bool> set_;
  std::vector<bool> freed_;
};

}  // namespace mqlab::blk::testing
