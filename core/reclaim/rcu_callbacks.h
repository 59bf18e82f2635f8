// The callbacks of one CPU, in four stages: new, assigned to a grace period (two at most), and done.
//
// Source: kernel/rcu/rcu_segcblist.c of Linux 7.3 (behaviour). An assigned callback is done when its normal or its
// expedited grace period has ended, whichever comes first.
//
// Thread safety: none; a CPU's own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <utility>

namespace mqlab::reclaim {

class RcuCallbacks {
 public:
  using Callback = std::function<void()>;
  /// `count` callbacks of which the first does something, if there is one, and the others free memory.
  struct Batch {
    Callback callback;
    std::size_t count = 0;
  };

  bool empty() const { return new_.empty() && done_.empty() && !any_waiting(); }
  bool has_new() const { return !new_.empty(); }
  bool any_done() const { return !done_.empty(); }
  std::size_t done_count() const { return done_count_; }
  /// Whether some are done, or would be after advance().
  bool ready(std::uint64_t completed, std::uint64_t expedited_completed) const {
    return any_done() || (!waiting_[0].batches.empty() && waiting_[0].ended(completed, expedited_completed));
  }

  void enqueue(Batch batch) { new_.push_back(std::move(batch)); }

  /// Those whose grace period has ended become done.
  void advance(std::uint64_t completed, std::uint64_t expedited_completed) {
    while (!waiting_[0].batches.empty() && waiting_[0].ended(completed, expedited_completed)) {
      for (const Batch& batch : waiting_[0].batches) done_count_ += batch.count;
      move_all(waiting_[0].batches, done_);
      waiting_[0] = std::exchange(waiting_[1], {});
    }
  }

  /// New ones, and assigned ones that need no earlier one, need these grace periods. Returns whether anything changed.
  bool assign(std::uint64_t grace_period, std::uint64_t expedited) {
    std::size_t at = 0;
    while (at < waiting_.size() && !waiting_[at].batches.empty() && waiting_[at].grace_period < grace_period) ++at;
    if (at == waiting_.size()) return false;
    Segment& segment = waiting_[at];
    if (new_.empty() && segment.batches.empty()) return false;
    if (at == 0 && !waiting_[1].batches.empty()) move_all(waiting_[1].batches, segment.batches);
    move_all(new_, segment.batches);
    segment.grace_period = grace_period;
    segment.expedited = expedited;
    return true;
  }

  /// Takes the first batch of those done, or as much of its frees as `most` allows.
  Batch take_done(std::size_t most) {
    Batch& front = done_.front();
    if (front.count <= most) {
      Batch taken = std::move(front);
      done_.pop_front();
      done_count_ -= taken.count;
      return taken;
    }
    front.count -= most;
    done_count_ -= most;
    return {std::exchange(front.callback, {}), most};
  }

 private:
  struct Segment {
    std::deque<Batch> batches;
    std::uint64_t grace_period = 0;
    std::uint64_t expedited = 0;
    bool ended(std::uint64_t completed, std::uint64_t expedited_completed) const {
      return grace_period <= completed || expedited <= expedited_completed;
    }
  };

  bool any_waiting() const { return !waiting_[0].batches.empty() || !waiting_[1].batches.empty(); }
  static void move_all(std::deque<Batch>& from, std::deque<Batch>& to) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
    from.clear();
  }

  std::deque<Batch> new_;
  std::array<Segment, 2> waiting_;
  std::deque<Batch> done_;
  std::size_t done_count_ = 0;
};

}  // namespace mqlab::reclaim
