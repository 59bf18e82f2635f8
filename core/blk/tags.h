// The tags of a hardware queue (or of a whole set that shares them), and the requests that belong to them.
//
// Source: block/blk-mq-tag.c, block/blk-mq.h of Linux 7.3 (behaviour). The first `reserved` tags come from a bitmap of
// their own, which ordinary requests never touch.
//
// Where several queues share one Tags, each is a TagUser. A user becomes active with its first request; an active user
// may hold no more than its share of the tags (the depth over the active users, four at least), so that one busy queue
// cannot starve the others. Batches are not given to users that share.
//
// Thread safety: all functions from any CPU at once, but resize() only while nobody allocates.
// Invariant: a tag is held by one request at most.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "blk/request.h"
#include "blk/sbitmap_queue.h"

namespace mqlab::blk {

/// What the caller of an allocation wants.
struct TagOptions {
  bool reserved = false;
  bool nowait = false;         ///< give up instead of waiting
  unsigned shallow_depth = 0;  ///< 0: as deep as there is
};

template <class P>
class Tags {
 public:
  explicit Tags(unsigned depth, unsigned reserved = 0, bool round_robin = false)
      : depth_(depth),
        reserved_(reserved),
        ordinary_tags_(depth - reserved, {.round_robin = round_robin}),
        reserved_tags_(reserved, {.round_robin = round_robin}),
        requests_(std::make_unique<Request<P>[]>(depth)),
        started_(std::make_unique<Started[]>(depth)) {}

  unsigned depth() const { return depth_.load(); }
  unsigned reserved() const { return reserved_; }
  SbitmapQueue<P>& bitmap(bool reserved) { return reserved ? reserved_tags_ : ordinary_tags_; }
  unsigned offset(bool reserved) const { return reserved ? 0 : reserved_; }
  bool is_reserved(unsigned tag) const { return tag < reserved_; }

  /// The request that belongs to the tag, allocated or not.
  Request<P>& request(unsigned tag) { return requests_[tag]; }
  /// The request that was started last under the tag, or null. Another one than request(tag) if a scheduler's tags came
  /// in between.
  Request<P>* started(unsigned tag) const { return started_[tag].load(std::memory_order_acquire); }
  /// The driver has it from here on: iterators find it.
  void start(Request<P>& request) {
    request.state.store(RequestState::kInFlight);
    const unsigned tag = request.tag.load();
    if (started(tag) != &request) started_[tag].store(&request, std::memory_order_release);
  }

  /// Tags of one word by one compare-and-swap, perhaps fewer than asked, as bits that begin at the batch's offset.
  BitBatch get_batch(unsigned nr) {
    BitBatch batch = ordinary_tags_.get_batch(nr);
    batch.offset += reserved_;
    return batch;
  }

  void put(unsigned tag, unsigned cpu) {
    const bool reserved = is_reserved(tag);
    bitmap(reserved).clear(tag - offset(reserved), cpu);
  }
  /// Ordinary tags only.
  void put_batch(std::span<const unsigned> tags) { ordinary_tags_.clear_batch(reserved_, tags); }

  /// Changes the number of tags, reserved ones included, to at most what there was at first.
  void resize(unsigned depth) {
    depth_.store(depth);
    ordinary_tags_.resize(depth - reserved_);
  }

  /// Lets all that wait look again.
  void wake_all(bool reserved_too) {
    ordinary_tags_.wake_all();
    if (reserved_too) reserved_tags_.wake_all();
  }

  unsigned active_users() const { return active_users_.load(); }
  void add_active_user() { change_active_users(1); }
  /// What is left of the shares is more for each: those who wait look again.
  void remove_active_user() {
    change_active_users(-1);
    wake_all(false);
  }

 private:
  using Started = typename P::template atomic<Request<P>*>;

  void change_active_users(int difference) {
    const platform::Guard<typename P::spinlock> guard(lock_);
    const unsigned users = active_users_.load() + static_cast<unsigned>(difference);
    active_users_.store(users);
    if (users == 0) return;
    ordinary_tags_.recalculate_wake_batch(users);
    reserved_tags_.recalculate_wake_batch(users);
  }

  typename P::template relaxed<unsigned> depth_;
  const unsigned reserved_;
  SbitmapQueue<P> ordinary_tags_;
  SbitmapQueue<P> reserved_tags_;
  std::unique_ptr<Request<P>[]> requests_;
  std::unique_ptr<Started[]> started_;
  typename P::spinlock lock_;
  typename P::template relaxed<unsigned> active_users_{0};
};

/// A hardware queue of one request queue, as far as tags go.
template <class P>
class TagUser {
 public:
  /// `queue` tells request queues apart. `scheduler_tags`, if any, are what requests are allocated from; the driver tag
  /// then comes at dispatch.
  TagUser(Tags<P>& tags, const void* queue, bool shares_tags = false, Tags<P>* scheduler_tags = nullptr)
      : tags_(tags), queue_(queue), shares_tags_(shares_tags), scheduler_tags_(scheduler_tags) {}
  TagUser(const TagUser&) = delete;
  TagUser& operator=(const TagUser&) = delete;

  Tags<P>& tags() { return tags_; }
  Tags<P>* scheduler_tags() { return scheduler_tags_; }
  Tags<P>& allocation_tags() { return scheduler_tags_ != nullptr ? *scheduler_tags_ : tags_; }
  const void* queue() const { return queue_; }
  bool shares_tags() const { return shares_tags_; }
  typename SbitmapQueue<P>::Counter& wait_index() { return wait_index_; }

  /// Before the first allocation, even if that fails: others then leave this user its share.
  void busy() {
    if (!shares_tags_ || active_.load(std::memory_order_relaxed) != 0) return;
    if (active_.exchange(1, std::memory_order_acq_rel) == 0) tags_.add_active_user();
  }
  /// After it has had nothing in flight for a while.
  void idle() {
    if (shares_tags_ && active_.exchange(0, std::memory_order_acq_rel) == 1) tags_.remove_active_user();
  }
  bool active() const { return active_.load(std::memory_order_relaxed) != 0; }

  bool may_queue(const SbitmapQueue<P>& bitmap) const {
    constexpr unsigned kLeastShare = 4;
    const unsigned depth = bitmap.bits().depth();
    if (!shares_tags_ || depth == 1 || !active()) return true;
    const unsigned users = tags_.active_users();
    if (users == 0) return true;
    const unsigned share = std::max((depth + users - 1) / users, kLeastShare);
    return in_flight_.load(std::memory_order_relaxed) < share;
  }

  void count_in_flight(unsigned more) {
    if (shares_tags_) in_flight_.fetch_add(more, std::memory_order_relaxed);
  }
  void uncount_in_flight(unsigned fewer) {
    if (shares_tags_) in_flight_.fetch_sub(fewer, std::memory_order_relaxed);
  }
  unsigned in_flight() const { return in_flight_.load(std::memory_order_relaxed); }

 private:
  Tags<P>& tags_;
  const void* const queue_;
  const bool shares_tags_;
  Tags<P>* const scheduler_tags_;
  typename P::template atomic<std::uint32_t> active_{0};
  typename P::template atomic<std::uint32_t> in_flight_{0};
  typename SbitmapQueue<P>::Counter wait_index_{0};
};

}  // namespace mqlab::blk
