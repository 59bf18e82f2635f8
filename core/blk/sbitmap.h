// A bitmap from which many CPUs allocate bits, spread over words that lie on cache lines of their own.
//
// Source: lib/sbitmap.c, include/linux/sbitmap.h of Linux 7.3 (behaviour).
//
//  - A small bitmap uses fewer bits a word than 64, so that it still spreads over four words or more (`shift`).
//  - Each CPU has a hint where to look first: the bit after its last allocation if the hint was used, or the bit that
//  was
//    freed last for this CPU.
//  - A freed bit is not cleared in its word but set in the word's `cleared` mask, and moved over when the word looks
//  full:
//    so the line that allocators fight for is written once a batch of frees. get_batch() moves them over first, in
//    every word that it looks at.
//  - A batch is one window of `nr` bits that starts at the first zero bit of a word and is taken by one
//  compare-and-swap;
//    bits of the window that others hold are missing from it. A word whose window would end beyond it is passed over.
//  - Round robin allocates strictly behind the last bit, and takes no batches.
//  - A shallow depth leaves the top of every word to others.
//
// Thread safety: allocation and freeing from any CPU at once. resize() is for a caller that lets nobody allocate
// meanwhile; any_bit_set(), weight() and for_each_set() may run with everything and see some state of each word.
// Invariant: a bit that get() gave is set in its word and not in `cleared` until it is freed.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "blk/bitmap_word.h"
#include "platform/concept.h"
#include "platform/cost.h"

namespace mqlab::blk {

/// No bit, no tag.
inline constexpr unsigned kNoBit = ~0U;

struct SbitmapOptions {
  int shift = -1;  ///< log2 of the bits a word; negative: chosen by depth
  bool round_robin = false;
};

/// Bits that get_batch() allocated: bit i of `mask` stands for bit `offset + i` of the bitmap. Empty mask: none.
struct BitBatch {
  std::uint64_t mask = 0;
  unsigned offset = 0;
};

/// Four words at least, if the bitmap has four bits a word to spare.
constexpr unsigned sbitmap_shift(unsigned depth) {
  unsigned shift = std::countr_zero(kBitsPerWord);
  if (depth >= 4)
    while ((4U << shift) > depth) --shift;
  return shift;
}

template <class P>
class Sbitmap {
 public:
  explicit Sbitmap(unsigned depth, const SbitmapOptions& options = {})
      : shift_(options.shift < 0 ? sbitmap_shift(depth) : static_cast<unsigned>(options.shift)),
        bit_mask_((1U << shift_) - 1),
        round_robin_(options.round_robin),
        depth_(depth),
        hint_limit_(round_robin_ ? 0 : depth),
        word_count_(words_for(depth)),
        words_made_(words_for(depth)),
        words_(std::make_unique<SbitmapWord[]>(words_made_)),
        hints_(std::make_unique<Hint[]>(P::nr_cpus())) {
    set_word_depths(depth);
    if (depth == 0 || round_robin_) return;
    for (unsigned cpu = 0; cpu < P::nr_cpus(); ++cpu) hints_[cpu].bit.store(random_bit(depth));
  }
  Sbitmap(const Sbitmap&) = delete;
  Sbitmap& operator=(const Sbitmap&) = delete;

  unsigned depth() const { return depth_.load(); }
  unsigned shift() const { return shift_; }
  unsigned word_count() const { return word_count_.load(); }
  bool round_robin() const { return round_robin_; }

  /// A free bit, or kNoBit. Orders what follows after it, as taking a lock does.
  unsigned get() {
    Hint& cpu_hint = hints_[P::this_cpu()];
    const unsigned hint = cpu_hint.bit.load();
    if (hint < hint_limit_.load()) [[likely]] {
      const unsigned bit = take_first(words_[hint >> shift_]);
      if (bit != kNoBit) [[likely]] {
        const unsigned found = word_start(hint) + bit;
        if (found == hint) advance_hint(cpu_hint, depth_.load(), found);
        return found;
      }
    }
    return get_searching(cpu_hint);
  }

  /// As get(), but of each word only a share: as much as `shallow_depth` is of the whole depth.
  unsigned get_shallow(unsigned shallow_depth) {
    const unsigned depth = depth_.load();
    Hint& cpu_hint = hints_[P::this_cpu()];
    const unsigned hint = read_hint(cpu_hint, depth);
    const unsigned bit = find<true>(hint >> shift_, hint & bit_mask_, true, shallow_depth);
    write_hint(cpu_hint, depth, hint, bit);
    return bit;
  }

  /// Up to `nr` bits (1 to 64) of one word.
  BitBatch get_batch(unsigned nr) {
    if (round_robin_) return {};
    const unsigned depth = depth_.load();
    const unsigned words = word_count_.load();
    Hint& cpu_hint = hints_[P::this_cpu()];
    const unsigned hint = read_hint(cpu_hint, depth);
    unsigned index = hint >> shift_;
    for (unsigned i = 0; i < words; ++i) {
      const BitBatch taken = take_window(words_[index], nr);
      if (taken.mask != 0) {
        const unsigned offset = taken.offset + (index << shift_);
        write_hint(cpu_hint, depth, hint, offset + nr - 1);
        return {taken.mask, offset};
      }
      if (++index >= words) index = 0;
    }
    return {};
  }

  /// Frees a bit into its word's `cleared` mask. A full barrier on both sides.
  void clear(unsigned bit) { words_[bit >> shift_].cleared.fetch_or(mask_of(bit), std::memory_order_seq_cst); }

  /// Frees the bits `mask` of the word `index` at once. A full barrier on both sides.
  void clear_in_word(unsigned index, std::uint64_t mask) {
    words_[index].word.fetch_and(~mask, std::memory_order_seq_cst);
  }

  /// clear(), and the hint for the next allocation of this CPU.
  void put(unsigned bit) {
    clear(bit);
    hint(P::this_cpu(), bit);
  }

  /// Where `cpu` (below nr_cpus()) shall look next: at a bit that was just freed.
  void hint(unsigned cpu, unsigned bit) {
    if (bit < hint_limit_.load()) [[likely]]
      hints_[cpu].bit.store(bit);
  }
  unsigned hint(unsigned cpu) const { return hints_[cpu].bit.load(); }

  /// Changes the depth to at most what the bitmap was made with.
  void resize(unsigned depth) {
    for (unsigned i = 0; i < word_count_.load(); ++i) move_cleared(words_[i], 0, 0, false);
    depth_.store(depth);
    if (!round_robin_) hint_limit_.store(depth);
    word_count_.store(words_for(depth));
    set_word_depths(depth);
  }

  bool test(unsigned bit) const {
    const SbitmapWord& word = words_[bit >> shift_];
    return (used_bits(word) & mask_of(bit)) != 0;
  }
  bool any_bit_set() const {
    for (unsigned i = 0; i < word_count_.load(); ++i)
      if (used_bits(words_[i]) != 0) return true;
    return false;
  }
  /// Bits that are allocated.
  unsigned weight() const {
    unsigned set = 0;
    for (unsigned i = 0; i < word_count_.load(); ++i)
      set += static_cast<unsigned>(std::popcount(used_bits(words_[i]) & low_bits(word_depth(i))));
    return set;
  }

  /// Calls `visit(bit)` for each allocated bit, starting at `start` and going round; stops when it returns false.
  template <class Visit>
  void for_each_set(Visit&& visit, unsigned start = 0) const {
    const unsigned depth = depth_.load();
    if (start >= depth) start = 0;
    unsigned index = start >> shift_;
    unsigned bit = start & bit_mask_;
    for (unsigned scanned = 0; scanned < depth;) {
      const unsigned count = std::min(word_depth(index) - bit, depth - scanned);
      scanned += count;
      const std::uint64_t used = used_bits(words_[index]) & low_bits(bit + count);
      for (bit = next_one_bit(used, bit); bit < kBitsPerWord; bit = next_one_bit(used, bit + 1))
        if (!visit((index << shift_) + bit)) return;
      bit = 0;
      if (++index >= word_count_.load()) index = 0;
    }
  }

  /// What a word holds, for displays and tests.
  std::uint64_t word_bits(unsigned index) const { return words_[index].word.load(std::memory_order_relaxed); }
  std::uint64_t cleared_bits(unsigned index) const { return words_[index].cleared.load(std::memory_order_relaxed); }
  unsigned word_index(unsigned bit) const { return bit >> shift_; }
  /// The first bit of the word that `bit` is in.
  unsigned word_start(unsigned bit) const { return bit & ~bit_mask_; }
  std::uint64_t mask_of(unsigned bit) const { return std::uint64_t{1} << (bit & bit_mask_); }

 private:
  struct alignas(P::kCacheLineBytes) SbitmapWord {
    typename P::template atomic<std::uint64_t> word{0};
    typename P::template relaxed<unsigned> depth{0};  // its bits in use
    alignas(P::kCacheLineBytes) typename P::template atomic<std::uint64_t> cleared{0};
    typename P::spinlock swap_lock;
  };
  struct alignas(P::kCacheLineBytes) Hint {
    typename P::template relaxed<unsigned> bit{0};
  };

  unsigned words_for(unsigned depth) const { return (depth + (1U << shift_) - 1) >> shift_; }
  unsigned word_depth(unsigned index) const { return words_[index].depth.load(); }
  void set_word_depths(unsigned depth) {
    for (unsigned index = 0; index < words_made_; ++index) {
      const unsigned before = std::min(depth, index << shift_);
      words_[index].depth.store(std::min(depth - before, 1U << shift_));
    }
  }
  static unsigned random_bit(unsigned depth) { return static_cast<unsigned>(P::random_below(depth)); }
  static std::uint64_t used_bits(const SbitmapWord& word) {
    return word.word.load(std::memory_order_relaxed) & ~word.cleared.load(std::memory_order_relaxed);
  }

  unsigned read_hint(Hint& cpu_hint, unsigned depth) {
    unsigned hint = cpu_hint.bit.load();
    if (hint >= depth) [[unlikely]] {
      hint = depth != 0 ? random_bit(depth) : 0;
      cpu_hint.bit.store(hint);
    }
    return hint;
  }
  void write_hint(Hint& cpu_hint, unsigned depth, unsigned hint, unsigned bit) {
    if (bit == kNoBit)
      cpu_hint.bit.store(0);  // the map is full: no place is better than another
    else if (bit == hint || round_robin_)
      advance_hint(cpu_hint, depth, bit);
  }
  static void advance_hint(Hint& cpu_hint, unsigned depth, unsigned bit) {
    const unsigned next = bit + 1;
    cpu_hint.bit.store(next >= depth - 1 ? 0 : next);
  }

  // Rounds up in the first words, so that the shares of all words add up to about the shallow depth.
  unsigned shallow_word_depth(unsigned index, unsigned shallow_depth) const {
    const unsigned whole = word_depth(index);
    const unsigned depth = depth_.load();
    if (shallow_depth >= depth) return whole;
    const std::uint64_t share = std::uint64_t{whole} * shallow_depth;
    const bool rounds_up = share % depth >= std::uint64_t{index + 1} * whole;
    return static_cast<unsigned>(share / depth) + (rounds_up ? 1U : 0U);
  }

  // The common case of get(): the hinted word has a free bit and nobody is faster.
  static unsigned take_first(SbitmapWord& word) {
    const auto bit = static_cast<unsigned>(std::countr_one(word.word.load(std::memory_order_relaxed)));
    if (bit >= word.depth.load()) [[unlikely]]
      return kNoBit;
    const std::uint64_t mask = std::uint64_t{1} << bit;
    if ((word.word.fetch_or(mask, std::memory_order_seq_cst) & mask) != 0) [[unlikely]]
      return kNoBit;
    P::charge(platform::Cost::kSbitmapWord);
    return bit;
  }

  [[gnu::noinline]] unsigned get_searching(Hint& cpu_hint) {
    const unsigned depth = depth_.load();
    const unsigned hint = read_hint(cpu_hint, depth);
    const unsigned bit =
        round_robin_ ? find<false>(hint >> shift_, hint & bit_mask_, false) : find<false>(hint >> shift_, 0, true);
    write_hint(cpu_hint, depth, hint, bit);
    return bit;
  }

  template <bool kShallow>
  unsigned find(unsigned index, unsigned from, bool wrap, unsigned shallow_depth = 0) {
    const unsigned words = word_count_.load();
    for (unsigned i = 0; i < words; ++i) {
      const unsigned depth = kShallow ? shallow_word_depth(index, shallow_depth) : word_depth(index);
      if (depth != 0) {
        const unsigned bit = find_in_word(words_[index], depth, from, wrap);
        if (bit != kNoBit) return bit + (index << shift_);
      }
      from = 0;
      if (++index >= words) index = 0;
    }
    return kNoBit;
  }

  static unsigned find_in_word(SbitmapWord& word, unsigned depth, unsigned from, bool wrap) {
    for (;;) {
      const unsigned bit = take_bit(word, depth, from, wrap);
      if (bit != kNoBit) [[likely]]
        return bit;
      if (!move_cleared(word, depth, from, wrap)) return kNoBit;
    }
  }

  static unsigned take_bit(SbitmapWord& word, unsigned depth, unsigned from, bool wrap) {
    wrap = wrap && from != 0;
    P::charge(platform::Cost::kSbitmapWord);
    for (;;) {
      const unsigned bit = next_zero_bit(word.word.load(std::memory_order_relaxed), from, depth);
      if (bit >= depth) {
        if (from == 0 || !wrap) return kNoBit;
        from = 0;
        continue;
      }
      const std::uint64_t mask = std::uint64_t{1} << bit;
      // Sequentially consistent: a waiter that announced itself must see the bit freed, or be seen by who frees it.
      if ((word.word.fetch_or(mask, std::memory_order_seq_cst) & mask) == 0) [[likely]]
        return bit;
      from = bit + 1 >= depth - 1 ? 0 : bit + 1;
    }
  }

  // Moves the freed bits over. Returns whether looking again makes sense: it moved some, or others were faster and left
  // some that the search may use (from `from` on, if it does not wrap around: else it would look for ever).
  [[gnu::noinline]] static bool move_cleared(SbitmapWord& word, unsigned depth, unsigned from, bool wrap) {
    const platform::Guard<typename P::spinlock> guard(word.swap_lock);
    if (word.cleared.load(std::memory_order_seq_cst) == 0) {
      if (depth == 0) return false;
      std::uint64_t wanted = low_bits(depth);
      if (!wrap && from != 0) wanted &= ~low_bits(from);
      return (word.word.load(std::memory_order_relaxed) & wanted) != wanted;
    }
    word.word.fetch_and(~word.cleared.exchange(0, std::memory_order_seq_cst), std::memory_order_seq_cst);
    return true;
  }

  static BitBatch take_window(SbitmapWord& word, unsigned nr) {
    const unsigned depth = word.depth.load();
    P::charge(platform::Cost::kSbitmapWord);
    move_cleared(word, 0, 0, false);
    std::uint64_t value = word.word.load(std::memory_order_relaxed);
    // The kernel takes this value for a full word; it is the one with only the top bit free.
    if (value == low_bits(depth - 1)) return {};
    const unsigned start = next_zero_bit(value, 0, depth);
    if (start + nr > depth) return {};
    const std::uint64_t window = low_bits(nr) << start;
    while (!word.word.compare_exchange_weak(value, value | window, std::memory_order_seq_cst)) {
    }
    return {(window & ~value) >> start, start};
  }

  const unsigned shift_;
  const unsigned bit_mask_;
  const bool round_robin_;
  typename P::template relaxed<unsigned> depth_;
  typename P::template relaxed<unsigned> hint_limit_;  // hints below it are good; 0 where hints are not used
  typename P::template relaxed<unsigned> word_count_;
  const unsigned words_made_;
  std::unique_ptr<SbitmapWord[]> words_;
  std::unique_ptr<Hint[]> hints_;
};

}  // namespace mqlab::blk
