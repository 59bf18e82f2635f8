// A tag set: the request maps of its hardware queues, and what protects their readers when they are freed.
//
// Source: block/blk-mq.c, block/blk-mq-tag.c of Linux 7.3 (behaviour). A busy iterator walks the maps under an SRCU
// read lock, and freed maps and flush queues go through call_srcu(). With one SRCU instance a set (`kPerSet`) freeing
// the set drains that instance with srcu_barrier(), which waits for a full grace period; with the shared instance
// (`kGlobal`) nothing is waited for. `kUnprotected` frees at once and exists to show that the checks notice it.
//
// Thread safety: alloc() and free() by the owner; iterators from any task. update_nr_hwq_lock orders changes of the
// number of hardware queues and elevator switches (writers) with adding and deleting disks (readers).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "blk/freeze.h"
#include "blk/kernel.h"
#include "blk/tag_iter.h"
#include "blk/tags.h"
#include "platform/concept.h"
#include "reclaim/srcu.h"

namespace mqlab::blk {

enum class TagsSrcu { kPerSet, kGlobal, kUnprotected };

struct TagSetConfig {
  unsigned queues = 1;
  unsigned depth = 16;
  bool blocking = false;  ///< BLK_MQ_F_BLOCKING: quiesce waits for the set's own SRCU instead of RCU
  TagsSrcu tags_srcu = TagsSrcu::kPerSet;
};

template <class P>
class TagSet {
 public:
  using Map = typename P::template tracked<Tags<P>>;
  using Cost = platform::Cost;

  TagSet(Kernel<P>& kernel, const TagSetConfig& config) : kernel_(kernel), config_(config) {}
  TagSet(const TagSet&) = delete;
  TagSet& operator=(const TagSet&) = delete;

  void alloc() {
    P::charge(Cost::kAllocTagSet);
    if (config_.blocking) set_srcu_ = make_srcu();
    if (config_.tags_srcu == TagsSrcu::kPerSet) tags_srcu_ = make_srcu();
    for (unsigned i = 0; i < config_.queues; ++i) maps_.push_back(Map::make("request map", config_.depth));
  }

  /// No disk may use it any more. Sleeps as the policy demands.
  void free() {
    for (Map map : std::exchange(maps_, {})) {
      P::charge(Cost::kFreeTagSetPerQueue);
      free_map(map);
    }
    const std::uint64_t begin_ns = P::now_ns();
    if (tags_srcu_) drain(tags_srcu_);
    free_wait_ns_ = P::now_ns() - begin_ns;
    if (set_srcu_) drain(set_srcu_);
  }

  /// nr_requests or nr_hw_queues change: every map is replaced by one of `depth` tags, the old ones are freed.
  void resize(unsigned depth) {
    update_nr_hwq_lock.down_write();
    config_.depth = depth;
    for (Map& map : maps_) {
      const Map old = std::exchange(map, Map::make("request map", depth));
      free_map(old);
    }
    update_nr_hwq_lock.up_write();
  }

  /// Frees a request map, or sched tags, once no iterator can look at it.
  void free_map(Map map) {
    if (config_.tags_srcu == TagsSrcu::kUnprotected) {
      buried_.push_back(map.bury());
      return;
    }
    tags_srcu().call([map]() mutable { map.free(); });
  }

  /// As an elevator's tags: allocated beside the set's own.
  Map make_map() { return Map::make("sched tags", config_.depth); }

  /// A flush queue, which iterators may be looking at too.
  void free_flush_queue() {
    if (config_.tags_srcu != TagsSrcu::kUnprotected) tags_srcu().call([] {});
  }

  /// Runs `callback` when the readers of this moment are gone, as the set's own frees do.
  void after_readers(std::function<void()> callback) { tags_srcu().call(std::move(callback)); }

  /// Calls `visit(queue, tag)` for every started request. Maps that are freed meanwhile stay valid until it is done.
  template <class Visit>
  void busy_iter(Visit&& visit) {
    const bool locked = config_.tags_srcu != TagsSrcu::kUnprotected;
    const unsigned index = locked ? tags_srcu().read_lock() : 0;
    const std::vector<Map> seen = maps_;
    for (unsigned queue = 0; queue < seen.size(); ++queue)
      for_each_started(*seen[queue], [&](Request<P>& request) {
        visit(queue, request.tag.load());
        return &*seen[queue] != nullptr;  // the map must still be there when the look at one request is over
      });
    if (locked) tags_srcu().read_unlock(index);
  }

  /// The driver of a queue has one more request in flight, if a tag is free. It stays so until its map is freed.
  bool occupy(unsigned queue) {
    Tags<P>& tags = *maps_[queue];
    const unsigned tag = tags.bitmap(false).get();
    if (tag == kNoTag) return false;
    Request<P>& request = tags.request(tag + tags.offset(false));
    request.tag.store(tag + tags.offset(false));
    request.references.store(1);
    tags.start(request);
    return true;
  }

  /// Waits until no dispatch that began before is still running.
  void wait_quiesce_done() {
    if (set_srcu_)
      set_srcu_->synchronize();
    else
      kernel_.rcu.synchronize();
  }

  /// What the set takes for protecting its readers, the per-CPU part included.
  std::size_t protection_bytes() const { return tags_srcu_ ? reclaim::Srcu<P>::bytes() : 0; }

  /// The number of hardware queues changes: every disk of the set is frozen while maps come or go.
  void update_nr_hw_queues(unsigned queues) {
    update_nr_hwq_lock.down_write();
    const std::vector<QueueUsage<P>*> frozen = users_;
    for (QueueUsage<P>* usage : frozen) usage->freeze();
    while (maps_.size() < queues) maps_.push_back(Map::make("request map", config_.depth));
    while (maps_.size() > queues) {
      const Map last = maps_.back();
      maps_.pop_back();
      free_map(last);
      free_flush_queue();
    }
    config_.queues = queues;
    for (QueueUsage<P>* usage : frozen) usage->unfreeze();
    update_nr_hwq_lock.up_write();
  }

  /// A disk begins or ends using the set. Under update_nr_hwq_lock for read, or before the disk is added.
  void add_user(QueueUsage<P>& usage) { users_.push_back(&usage); }
  void remove_user(QueueUsage<P>& usage) { std::erase(users_, &usage); }

  /// How long free() waited for readers' protection to drain.
  std::uint64_t free_wait_ns() const { return free_wait_ns_; }

  const TagSetConfig& config() const { return config_; }
  typename P::rw_semaphore update_nr_hwq_lock{"update_nr_hwq_lock"};

 private:
  reclaim::Srcu<P>& tags_srcu() { return tags_srcu_ ? *tags_srcu_ : kernel_.tags_srcu; }
  std::unique_ptr<reclaim::Srcu<P>> make_srcu() {
    P::charge(Cost::kAllocSrcuPerCpu, P::nr_cpus());
    return std::make_unique<reclaim::Srcu<P>>(kernel_.rcu_gp_wq);
  }
  void drain(std::unique_ptr<reclaim::Srcu<P>>& srcu) {
    srcu->barrier();
    srcu->cleanup();
    srcu.reset();
  }

  Kernel<P>& kernel_;
  TagSetConfig config_;
  std::vector<Map> maps_;
  std::vector<QueueUsage<P>*> users_;
  std::vector<std::unique_ptr<Tags<P>>> buried_;  // freed too early, kept so that the report is the only harm
  std::uint64_t free_wait_ns_ = 0;
  std::unique_ptr<reclaim::Srcu<P>> tags_srcu_;
  std::unique_ptr<reclaim::Srcu<P>> set_srcu_;
};

}  // namespace mqlab::blk
