// A bitmap on whose bits tasks can wait.
//
// Source: lib/sbitmap.c of Linux 7.3 (behaviour). Waiters are spread over eight queues. Frees are counted while
// somebody waits; each time the count has grown by `wake_batch`, that many waiters are woken, beginning at the queue
// whose turn it is. The batch is at most an eighth of the bits that a waiter can hope for, so that waiters of every
// queue are reached before the bits run out: it follows the depth, the least shallow depth in use, or the number of
// users that share the map.
//
// Thread safety: allocation, freeing and waiting from any CPU. resize(), min_shallow_depth() and
// recalculate_wake_batch() may run with them. Invariant: with bits free and nobody allocating, no waiter sleeps for
// ever, as long as those who hold bits free them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "blk/sbitmap.h"

namespace mqlab::blk {

template <class P>
class SbitmapQueue {
 public:
  static constexpr unsigned kWaitQueues = 8;
  static constexpr unsigned kMaxWakeBatch = 8;
  using Counter = typename P::template atomic<std::uint32_t>;

  /// One task that waits for a bit. On its stack.
  class Waiter {
   public:
    Waiter() = default;
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

   private:
    friend class SbitmapQueue;
    typename P::wait_queue::Entry entry_;
    bool counted_ = false;
  };

  explicit SbitmapQueue(unsigned depth, const SbitmapOptions& options = {})
      : bits_(depth, options), wake_batch_(wake_batch_for(depth)) {}

  Sbitmap<P>& bits() { return bits_; }
  const Sbitmap<P>& bits() const { return bits_; }
  unsigned wake_batch() const { return wake_batch_.load(); }
  unsigned waiters() const { return ws_active_.load(std::memory_order_relaxed); }

  unsigned get() { return bits_.get(); }
  BitBatch get_batch(unsigned nr) { return bits_.get_batch(nr); }
  unsigned get_shallow(unsigned shallow_depth) { return bits_.get_shallow(shallow_depth); }

  /// Frees a bit; `cpu` is the one it was allocated on, which shall look there first.
  void clear(unsigned bit, unsigned cpu) {
    bits_.clear(bit);
    wake_up(1);
    bits_.hint(cpu, bit);
  }

  /// Frees bits, given as tags that begin at `offset`. A run of bits of one word is cleared at once, past the deferred
  /// mask.
  void clear_batch(unsigned offset, std::span<const unsigned> tags) {
    if (tags.empty()) return;
    const auto count = static_cast<unsigned>(tags.size());
    const unsigned first = tags.front() - offset;
    const unsigned last = tags.back() - offset;
    const unsigned lowest = std::min(first, last);
    const bool in_one_word = bits_.word_index(first) == bits_.word_index(last);
    // What a batch took is mostly freed together, so that its tags are a run of one word: no need to look at each bit.
    if (in_one_word && is_run(tags)) [[likely]]
      bits_.clear_in_word(bits_.word_index(first), low_bits(count) << (lowest - bits_.word_start(first)));
    else
      clear_words(offset, tags);
    wake_up(count);
    bits_.hint(P::this_cpu(), last);
  }

  void resize(unsigned depth) {
    wake_batch_.store(wake_batch_for(depth));
    bits_.resize(depth);
  }
  void min_shallow_depth(unsigned shallow_depth) {
    min_shallow_depth_.store(shallow_depth);
    wake_batch_.store(wake_batch_for(bits_.depth()));
  }
  /// `users` tag users share the bits, each with its part.
  void recalculate_wake_batch(unsigned users) {
    const unsigned share = (bits_.depth() + users - 1) / users;
    wake_batch_.store(std::clamp(share / kWaitQueues, 1U, kMaxWakeBatch));
  }

  /// The next of the eight queues, by a counter that each kind of waiter keeps for itself.
  static unsigned next_queue(Counter& wait_index) {
    std::uint32_t now = wait_index.load(std::memory_order_relaxed);
    const std::uint32_t queue = now;
    wait_index.compare_exchange_strong(now, (now + 1) % kWaitQueues, std::memory_order_relaxed);
    return queue;
  }

  /// Announces the waiter. The caller must look for a bit once more before it sleeps.
  void prepare_to_wait(unsigned queue, Waiter& waiter) {
    if (!waiter.counted_) {
      waiter.counted_ = true;
      // Sequentially consistent, with the look that follows: either it finds the bit that is just being freed, or who
      // frees it finds this waiter. Without that both may miss the other.
      ws_active_.fetch_add(1, std::memory_order_seq_cst);
    }
    ws_[queue].prepare(waiter.entry_);
  }
  void sleep(unsigned queue, Waiter& waiter) { ws_[queue].sleep(waiter.entry_); }
  void finish_wait(unsigned queue, Waiter& waiter) {
    ws_[queue].finish(waiter.entry_);
    if (!waiter.counted_) return;
    waiter.counted_ = false;
    ws_active_.fetch_sub(1, std::memory_order_relaxed);
  }

  /// `freed` bits were freed: wakes as many waiters as the count says.
  void wake_up(unsigned freed) {
    if (ws_active_.load(std::memory_order_seq_cst) == 0) [[likely]]
      return;
    count_and_wake(freed);
  }

  /// Wakes one waiter of each queue.
  void wake_all() {
    std::uint32_t queue = wake_index_.load(std::memory_order_seq_cst);
    for (unsigned i = 0; i < kWaitQueues; ++i) {
      ws_[queue].wake_one();
      queue = (queue + 1) % kWaitQueues;
    }
  }

 private:
  unsigned wake_batch_for(unsigned depth) const {
    return std::clamp(std::min(depth, min_shallow_depth_.load()) / kWaitQueues, 1U, kMaxWakeBatch);
  }

  /// Each tag is one more than the one before, or each is one less.
  static bool is_run(std::span<const unsigned> tags) {
    const unsigned step = tags.size() > 1 && tags[1] < tags[0] ? ~0U : 1U;
    unsigned differences = 0;
    unsigned expected = tags.front();
    for (const unsigned tag : tags) {
      differences |= tag ^ expected;
      expected += step;
    }
    return differences == 0;
  }

  void clear_words(unsigned offset, std::span<const unsigned> tags) {
    unsigned index = bits_.word_index(tags.front() - offset);
    std::uint64_t mask = 0;
    for (const unsigned tag : tags) {
      const unsigned bit = tag - offset;
      if (const unsigned its_word = bits_.word_index(bit); its_word != index) {
        bits_.clear_in_word(index, mask);
        mask = 0;
        index = its_word;
      }
      mask |= bits_.mask_of(bit);
    }
    bits_.clear_in_word(index, mask);
  }

  [[gnu::noinline]] void count_and_wake(unsigned freed) {
    const unsigned batch = wake_batch_.load();
    completions_.fetch_add(freed, std::memory_order_seq_cst);
    std::uint32_t wakeups = wakeups_.load(std::memory_order_seq_cst);
    do {
      if (completions_.load(std::memory_order_seq_cst) - wakeups < batch) return;
    } while (!wakeups_.compare_exchange_strong(wakeups, wakeups + batch, std::memory_order_seq_cst));
    wake(batch);
  }

  void wake(unsigned count) {
    if (ws_active_.load(std::memory_order_seq_cst) == 0) return;
    const std::uint32_t first = wake_index_.load(std::memory_order_relaxed);
    std::uint32_t queue = first;
    for (unsigned i = 0; i < kWaitQueues; ++i) {
      auto& waiters = ws_[queue];
      // On to the next queue before this one is looked at: one that never empties must not keep the others waiting.
      queue = (queue + 1) % kWaitQueues;
      if (!waiters.active()) continue;
      const unsigned woken = waiters.wake(count);
      if (woken == count) break;
      count -= woken;
    }
    if (queue != first) wake_index_.store(queue, std::memory_order_relaxed);
  }

  Sbitmap<P> bits_;
  typename P::template relaxed<unsigned> min_shallow_depth_{~0U};
  typename P::template relaxed<unsigned> wake_batch_;
  Counter wake_index_{0};
  Counter ws_active_{0};
  Counter completions_{0};
  Counter wakeups_{0};
  std::array<typename P::wait_queue, kWaitQueues> ws_;
};

}  // namespace mqlab::blk
