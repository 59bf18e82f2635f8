// The reading thread of plug_batch: keeps reads in flight, submits them in batches under a plug, and reaps.
//
// It goes on as the programs of the thread do:
//
//  - t/io_uring: submits what is free, a batch at most, and waits for `reap` completions only when another batch would
//  not
//    fit. With several files it fills one up to its share of the depth and then goes on to the next.
//  - fio: fills up to the depth, then reaps until no more than `refill_at` are in flight (iodepth_low).
//
// Polled files: a look at the completion queues goes through the reads in flight, the oldest first, and polls the queue
// of each until one has something; what it has is completed as one batch (source: io_do_iopoll() of Linux 7.3).
//
// Thread safety: a reader belongs to its thread. In sim, the readers of one device queue complete each other's reads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "blk/plug.h"
#include "platform/cost.h"
#include "workloads/plug_batch_device.h"

namespace mqlab::workloads {

enum class ReaderKind { kTIoUring, kFio };

struct ReaderConfig {
  ReaderKind kind = ReaderKind::kTIoUring;
  unsigned depth = 128;
  unsigned batch = 32;
  unsigned reap = 32;
  unsigned refill_at = 32;
  blk::AllocPolicy policy{};
};

struct ReaderCounts {
  blk::AllocStats alloc;
  std::uint64_t ios = 0;
  std::uint64_t alloc_ns = 0;
};

/// Where a reader's requests come from and go to. Either timed devices, or one queue with a server that holds back.
template <class P>
struct ReaderFile {
  DeviceQueue<P>* queue = nullptr;
  TimedDevice<P>* device = nullptr;  ///< null: `server` completes
  HoldBack<P>* server = nullptr;
  unsigned in_flight = 0;
  std::uint64_t empty_in_look = 0;  ///< the look in which its queue was found empty
};

/// A platform that tells when a CPU went from one task to another.
template <class P>
concept CountsSwitches = requires(unsigned cpu) { P::cpu_switches(cpu); };

template <class P>
class Reader {
 public:
  using Cost = platform::Cost;
  using Request = blk::Request<P>;

  /// `times_calls`: each allocation is timed by itself (virtual time, where looking at the clock is free), or else each
  /// batch.
  Reader(const ReaderConfig& config, std::vector<ReaderFile<P>> files, bool times_calls)
      : config_(config),
        times_calls_(times_calls),
        files_(std::move(files)),
        file_depth_((config.depth + static_cast<unsigned>(files_.size()) - 1) / static_cast<unsigned>(files_.size())) {}

  /// Submits and reaps once. Returns how many reads it submitted.
  unsigned turn() { return config_.kind == ReaderKind::kFio ? fio_turn() : t_io_uring_turn(); }

  /// Waits for all that is in flight.
  void drain() {
    while (in_flight_ > 0) wait_for(1, true);
  }

  ReaderCounts& counts() { return counts_; }

 private:
  struct InFlight {
    Reader* reader;
    unsigned file;
    bool done = false;
  };

  unsigned t_io_uring_turn() {
    const unsigned count = std::min(config_.depth - in_flight_, config_.batch);
    in_flight_ += count;
    if (count > 0) submit(count);
    const bool another_fits = count > 0 && in_flight_ + count <= config_.depth;
    if (!another_fits) wait_for(std::min(in_flight_, config_.reap), false);
    return count;
  }

  unsigned fio_turn() {
    unsigned submitted = 0;
    while (in_flight_ < config_.depth) {
      const unsigned count = std::min(config_.depth - in_flight_, config_.batch);
      in_flight_ += count;
      submit(count);
      submitted += count;
    }
    do wait_for(std::min(in_flight_, config_.reap), false);
    while (in_flight_ > config_.refill_at);
    return submitted;
  }

  void submit(unsigned count) {
    P::charge(Cost::kUringEnter);
    // io_uring plugs from the third entry on.
    blk::Plug<P> plug(count > 2 ? count : 1, config_.policy, &counts_.alloc);
    const std::uint64_t start_ns = times_calls_ ? 0 : P::now_ns();
    for (unsigned i = 0; i < count; ++i) {
      const unsigned file = next_file();
      charge_submit(files_[file]);
      Request* const request = allocate(plug, *files_[file].queue, file);
      if (plug.add(request)) dispatch(plug.take());
    }
    if (!times_calls_) counts_.alloc_ns += P::now_ns() - start_ns;
    dispatch(plug.take());
    plug.drop_cached();
    counts_.ios += count;
  }

  Request* allocate(blk::Plug<P>& plug, DeviceQueue<P>& queue, unsigned file) {
    Request* const request =
        times_calls_ ? timed_request(plug, queue) : plug.request(queue.user().queue(), queue.map());
    InFlight* const entry = take_entry();
    *entry = {this, file};
    request->data = entry;
    return request;
  }

  // Only calls of the allocator count, not what comes out of the cache; and not what another task did meanwhile.
  Request* timed_request(blk::Plug<P>& plug, DeviceQueue<P>& queue)
    requires CountsSwitches<P>
  {
    const std::uint64_t calls = counts_.alloc.calls;
    const std::uint64_t switches = P::cpu_switches(P::this_cpu());
    const std::uint64_t start_ns = P::now_ns();
    Request* const request = plug.request(queue.user().queue(), queue.map());
    const bool counts = counts_.alloc.calls != calls && P::cpu_switches(P::this_cpu()) == switches;
    if (counts) counts_.alloc_ns += P::now_ns() - start_ns;
    return request;
  }
  Request* timed_request(blk::Plug<P>& plug, DeviceQueue<P>& queue) {
    return plug.request(queue.user().queue(), queue.map());
  }

  unsigned next_file() {
    if (files_.size() > 1 && files_[file_].in_flight >= file_depth_)
      file_ = (file_ + 1) % static_cast<unsigned>(files_.size());
    ++files_[file_].in_flight;
    return file_;
  }

  void dispatch(blk::RequestList<P> list) {
    const std::uint64_t now_ns = P::now_ns();
    for (Request* request = list.peek(); request != nullptr; request = request->next)
      files_[entry_of(*request).file].queue->tags().start(*request);
    if (HoldBack<P>* const server = files_.front().server; server != nullptr) {
      server->arrive(list);
      return;
    }
    while (Request* const request = list.pop()) {
      InFlight& entry = entry_of(*request);
      order_.push_back(&entry);
      files_[entry.file].device->submit(*files_[entry.file].queue, *request, now_ns);
    }
  }
  static InFlight& entry_of(Request& request) { return *static_cast<InFlight*>(request.data); }

  // `draining`: whatever is held back is completed too.
  void wait_for(unsigned count, bool draining) {
    P::charge(Cost::kUringEnter);
    if (files_.front().server != nullptr) {
      serve(draining);
      return;
    }
    const unsigned before = in_flight_;
    while (before - in_flight_ < count) poll_once();
  }

  void serve(bool draining) {
    P::charge(Cost::kUblkTurn);
    const auto complete = [this](Request& request) {
      finish(request);
      blk::free_request(request);
    };
    files_.front().server->serve(complete);
    if (draining) files_.front().server->flush(complete);
  }

  void poll_once() {
    if (forget_done() > 0) return;  // another reader of the queue was there first
    blk::RequestList<P> done;
    unsigned empty = 0;
    ++looks_;
    for (const InFlight* entry : order_) {
      ReaderFile<P>& file = files_[entry->file];
      // A queue is polled for each of its reads; here it is asked once, since nothing can come meanwhile.
      if (file.empty_in_look != looks_ && file.queue->poll(P::now_ns(), done) > 0) break;
      file.empty_in_look = looks_;
      ++empty;
    }
    if (done.empty()) {
      spin();
      return;
    }
    for (unsigned i = 0; i < empty; ++i) P::charge(Cost::kPollEmpty);
    for (Request* request = done.peek(); request != nullptr; request = request->next) finish(*request);
    blk::end_request_batch(done);
    forget_done();
  }

  // Polls in vain until the next read is done.
  void spin() {
    std::uint64_t next_ns = ~std::uint64_t{0};
    for (const ReaderFile<P>& file : files_) next_ns = std::min(next_ns, file.queue->next_done_ns());
    const std::uint64_t now_ns = P::now_ns();
    if (next_ns > now_ns) P::busy_ns(next_ns - now_ns);
  }

  void finish(Request& request) {
    InFlight& entry = entry_of(request);
    request.state.store(blk::RequestState::kComplete);
    entry.reader->finished(entry);
  }
  void finished(InFlight& entry) {
    ReaderFile<P>& file = files_[entry.file];
    charge_complete(file);
    --file.in_flight;
    --in_flight_;
    entry.done = true;
    if (file.device == nullptr) free_.push_back(&entry);
  }

  unsigned forget_done() {
    std::size_t kept = 0;
    for (InFlight* entry : order_) {
      if (entry->done)
        free_.push_back(entry);
      else
        order_[kept++] = entry;
    }
    const auto gone = static_cast<unsigned>(order_.size() - kept);
    order_.resize(kept);
    return gone;
  }

  InFlight* take_entry() {
    if (free_.empty()) {
      entries_.push_back(std::make_unique<InFlight>());
      return entries_.back().get();
    }
    InFlight* const entry = free_.back();
    free_.pop_back();
    return entry;
  }

  void charge_submit(const ReaderFile<P>& file) {
    P::charge(file.device != nullptr ? Cost::kPolledSubmit : Cost::kUblkIo);
    if (config_.kind == ReaderKind::kFio) P::charge(Cost::kFioSubmit);
  }
  void charge_complete(const ReaderFile<P>& file) {
    if (file.device != nullptr) P::charge(Cost::kPolledComplete);
    if (config_.kind == ReaderKind::kFio) P::charge(Cost::kFioComplete);
  }

  const ReaderConfig config_;
  const bool times_calls_;
  std::vector<ReaderFile<P>> files_;
  const unsigned file_depth_;
  unsigned file_ = 0;
  unsigned in_flight_ = 0;
  std::uint64_t looks_ = 0;
  std::vector<InFlight*> order_;  // polled reads in flight, the oldest first
  std::vector<std::unique_ptr<InFlight>> entries_;
  std::vector<InFlight*> free_;
  ReaderCounts counts_;
};

}  // namespace mqlab::workloads
