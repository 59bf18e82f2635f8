// The devices of plug_batch: when a read is done, and in which order.
//
//  - TimedDevice: a read takes its time whatever else goes on, and two reads are never closer than the device's
//  interval.
//    Reads of flash vary widely, so completions are out of order; reads of Optane hardly do, but for a few slow ones.
//  - HoldBack: a ublk server that keeps a number of requests back and completes the others, each time one of all that
//  it
//    has at random. Without any held back it completes in order.
//
// Thread safety: none; on the native platform each thread has a HoldBack of its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"
#include "blk/request_alloc.h"
#include "blk/tags.h"

namespace mqlab::workloads {

/// What a timed device does with one read.
struct ReadTimes {
  std::uint64_t read_ns = 0;
  std::uint64_t spread_percent = 0;
  std::uint64_t interval_ns = 0;  ///< 0: as many as come
  std::uint64_t slow_one_in = 0;  ///< 0: none is slow
  std::uint64_t slow_factor_percent = 100;
};

/// One hardware queue of a device: its tags and what it has in flight.
template <class P>
class DeviceQueue {
 public:
  using Request = blk::Request<P>;

  DeviceQueue(unsigned tags, const void* device) : tags_(tags), user_(tags_, device) {}

  blk::Tags<P>& tags() { return tags_; }
  blk::TagUser<P>& user() { return user_; }
  auto map() {
    return [this]() -> blk::TagUser<P>& { return user_; };
  }

  void complete_at(std::uint64_t done_ns, Request& request) {
    pending_.push_back({done_ns, next_++, &request});
    std::push_heap(pending_.begin(), pending_.end(), std::greater<>{});
  }
  std::uint64_t next_done_ns() const { return pending_.empty() ? ~std::uint64_t{0} : pending_.front().done_ns; }
  /// The completion queue: what is done by `now_ns`, in the order in which it was done. Returns how many.
  unsigned poll(std::uint64_t now_ns, blk::RequestList<P>& done) {
    unsigned count = 0;
    for (; next_done_ns() <= now_ns && !pending_.empty(); ++count) {
      std::pop_heap(pending_.begin(), pending_.end(), std::greater<>{});
      done.add_tail(pending_.back().request);
      pending_.pop_back();
    }
    return count;
  }

 private:
  struct Pending {
    std::uint64_t done_ns;
    std::uint64_t order;
    Request* request;
    bool operator>(const Pending& other) const {
      return done_ns != other.done_ns ? done_ns > other.done_ns : order > other.order;
    }
  };

  blk::Tags<P> tags_;
  blk::TagUser<P> user_;
  std::vector<Pending> pending_;
  std::uint64_t next_ = 0;
};

/// A device with its hardware queues. Queue i is that of CPU i, as far as there are enough.
template <class P>
class TimedDevice {
 public:
  TimedDevice(const ReadTimes& times, unsigned queues, unsigned tags, Random random) : times_(times), random_(random) {
    for (unsigned i = 0; i < queues; ++i) queues_.push_back(std::make_unique<DeviceQueue<P>>(tags, this));
  }

  DeviceQueue<P>& queue_of(unsigned cpu) { return *queues_[cpu % queues_.size()]; }

  void submit(DeviceQueue<P>& queue, blk::Request<P>& request, std::uint64_t now_ns) {
    free_ns_ = std::max(free_ns_, now_ns) + times_.interval_ns;
    queue.complete_at(free_ns_ + read_time_ns(), request);
  }

 private:
  std::uint64_t read_time_ns() {
    const std::uint64_t width = times_.read_ns * times_.spread_percent / 50;
    std::uint64_t ns = times_.read_ns - width / 2 + random_.below(width + 1);
    if (times_.slow_one_in != 0 && random_.below(times_.slow_one_in) == 0) ns = ns * times_.slow_factor_percent / 100;
    return ns;
  }

  ReadTimes times_;
  Random random_;
  std::vector<std::unique_ptr<DeviceQueue<P>>> queues_;
  std::uint64_t free_ns_ = 0;
};

template <class P>
class HoldBack {
 public:
  HoldBack(unsigned held_back, Random random) : held_back_(held_back), random_(random) {}

  /// The requests of one plug reach the server together.
  void arrive(blk::RequestList<P> requests) { arrived_.push_back(requests); }

  /// One turn of the server: it takes what arrived, a plug's requests at a time, and `complete` gets each request that
  /// it is done with.
  template <class Complete>
  void serve(Complete&& complete) {
    for (blk::RequestList<P>& list : std::exchange(arrived_, {})) {
      while (blk::Request<P>* const request = list.pop()) held_.push_back(request);
      complete_down_to(held_back_, complete);
    }
  }
  /// The server ends: nothing is held back any more.
  template <class Complete>
  void flush(Complete&& complete) {
    serve(complete);
    complete_down_to(0, complete);
  }

 private:
  template <class Complete>
  void complete_down_to(std::size_t left, Complete& complete) {
    if (left == 0) {
      for (blk::Request<P>* request : std::exchange(held_, {})) complete(*request);
      return;
    }
    while (held_.size() > left) {
      const std::size_t chosen = random_.below(held_.size());
      blk::Request<P>* const request = std::exchange(held_[chosen], held_.back());
      held_.pop_back();
      complete(*request);
    }
  }

  unsigned held_back_;
  Random random_;
  std::vector<blk::RequestList<P>> arrived_;
  std::vector<blk::Request<P>*> held_;
};

}  // namespace mqlab::workloads
