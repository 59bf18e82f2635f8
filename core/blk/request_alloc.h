// Allocating requests, one or a batch at a time, and freeing them.
//
// Source: block/blk-mq.c of Linux 7.3 (behaviour). A batch allocation asks the bitmap once for a window of tags and
// makes a request of each that it gets; the first is returned and the others are cached for the submissions that
// follow.
//
// Thread safety: from tasks. `AllocStats` belongs to one task.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "blk/request.h"
#include "blk/tag_wait.h"
#include "blk/tags.h"
#include "platform/cost.h"

namespace mqlab::blk {

/// What is done when a batch comes back with fewer tags than asked.
struct AllocPolicy {
  /// The same call asks again for the rest until it gets none. What Linux 7.3 does; kernels up to 6.18 ask once.
  bool batch_loop = false;
  /// The plug asks for a batch of the rest at its next allocation, instead of for single tags.
  bool plug_retry = false;
};

struct AllocStats {
  std::uint64_t calls = 0;          ///< of alloc_requests()
  std::uint64_t batch_tries = 0;    ///< batches that the bitmap was asked for
  std::uint64_t partial_tries = 0;  ///< of these, answered with some tags but not all
  std::uint64_t empty_tries = 0;    ///< of these, answered with none
  std::uint64_t singles = 0;        ///< tags that were allocated alone
  std::uint64_t requests = 0;       ///< that were made
  std::uint64_t unused = 0;         ///< that were freed with their plug without having been used
};

/// An allocation in progress. `nr_tags` is what is wanted, and afterwards what is still missing: 1 when no batch was to
/// be had and a single tag was taken.
template <class P>
struct AllocData {
  unsigned nr_tags = 1;
  RequestList<P>* cached = nullptr;
  TagOptions options{};
  AllocPolicy policy{};
  AllocStats* stats = nullptr;
};

namespace detail {

template <class P>
Request<P>* init_request(TagUser<P>& user, Tags<P>& tags, unsigned tag, unsigned cpu) {
  P::charge(platform::Cost::kRequestInit);
  Request<P>& request = tags.request(tag);
  const bool scheduled = user.scheduler_tags() != nullptr;
  request.user = &user;
  request.cpu = cpu;
  request.tag.store(scheduled ? kNoTag : tag);
  request.internal_tag = scheduled ? tag : kNoTag;
  request.data = nullptr;
  // An iterator that finds the request from here on must see it as it is now.
  request.references.store(1, std::memory_order_release);
  return &request;
}

template <class P>
void cache_batch(TagUser<P>& user, Tags<P>& tags, BitBatch batch, unsigned cpu, RequestList<P>& cached) {
  for (std::uint64_t left = batch.mask; left != 0; left &= left - 1) {
    const unsigned tag = batch.offset + static_cast<unsigned>(std::countr_zero(left));
    P::charge(platform::Cost::kTagPerRequest);
    cached.add_head(init_request(user, tags, tag, cpu));
  }
}

/// Null when the bitmap had no batch.
template <class P>
Request<P>* alloc_batch(AllocData<P>& data, TagUser<P>& user, unsigned cpu) {
  if (data.options.shallow_depth != 0 || data.options.reserved || user.shares_tags()) return nullptr;
  Tags<P>& tags = user.allocation_tags();
  unsigned got = 0;
  do {
    const unsigned wanted = data.nr_tags - got;
    P::charge(platform::Cost::kTagAllocBatch);
    const BitBatch batch = tags.get_batch(wanted);
    const auto count = static_cast<unsigned>(std::popcount(batch.mask));
    if (data.stats != nullptr) {
      ++data.stats->batch_tries;
      data.stats->empty_tries += count == 0 ? 1 : 0;
      data.stats->partial_tries += count != 0 && count < wanted ? 1 : 0;
    }
    if (count == 0) break;
    cache_batch(user, tags, batch, cpu, *data.cached);
    got += count;
  } while (data.policy.batch_loop && got < data.nr_tags);
  if (got == 0) return nullptr;
  if (user.scheduler_tags() == nullptr) user.count_in_flight(got);
  if (data.stats != nullptr) data.stats->requests += got;
  data.nr_tags -= got;
  return data.cached->pop();
}

}  // namespace detail

/// A request for the calling CPU's hardware queue (given by `map()`), with more of them in `data.cached` if a batch was
/// asked for. Sleeps for a tag unless told not to; null if it may not, or if there are no reserved tags.
template <class P, class Map, class Hooks = NoWaitHooks>
Request<P>* alloc_requests(Map&& map, AllocData<P>& data, Hooks&& hooks = {}) {
  if (data.stats != nullptr) ++data.stats->calls;
  P::charge(platform::Cost::kRequestAlloc);
  const unsigned cpu = P::this_cpu();
  TagUser<P>& here = map();
  if (here.scheduler_tags() == nullptr) here.busy();
  if (data.nr_tags > 1) {
    if (Request<P>* const request = detail::alloc_batch(data, here, cpu)) return request;
    data.nr_tags = 1;
  }
  P::charge(platform::Cost::kTagAllocSingle);
  const auto [user, tag] = get_tag<P>(map, data.options, hooks);
  if (tag == kNoTag) return nullptr;
  if (user->scheduler_tags() == nullptr) user->count_in_flight(1);
  if (data.stats != nullptr) {
    ++data.stats->singles;
    ++data.stats->requests;
  }
  return detail::init_request(*user, user->allocation_tags(), tag, cpu);
}

/// A driver tag for a request that a scheduler held until now. False when there is none.
template <class P>
bool get_driver_tag(Request<P>& request) {
  if (request.tag.load() != kNoTag) return true;
  TagUser<P>& user = *request.user;
  user.busy();
  const bool reserved = user.scheduler_tags()->is_reserved(request.internal_tag);
  SbitmapQueue<P>& bitmap = user.tags().bitmap(reserved);
  if (!reserved && !user.may_queue(bitmap)) return false;
  const unsigned bit = bitmap.get();
  if (bit == kNoTag) return false;
  request.tag.store(bit + user.tags().offset(reserved));
  user.count_in_flight(1);
  return true;
}

/// The last reference is gone: the tags are freed.
template <class P>
void release_request(Request<P>& request) {
  // All is read first: the request is somebody else's as soon as its tag is free.
  TagUser<P>& user = *request.user;
  const unsigned tag = request.tag.load();
  const unsigned internal_tag = request.internal_tag;
  const unsigned cpu = request.cpu;
  if (tag != kNoTag) {
    P::charge(platform::Cost::kTagFree);
    user.uncount_in_flight(1);
    user.tags().put(tag, cpu);
  }
  if (internal_tag != kNoTag) {
    P::charge(platform::Cost::kTagFree);
    user.scheduler_tags()->put(internal_tag, cpu);
  }
}

/// Ends one request.
template <class P>
void free_request(Request<P>& request) {
  request.state.store(RequestState::kIdle);
  if (request.put_and_test()) release_request(request);
}

/// Ends the requests of a completion batch. Their tags are freed together, for each run of requests of one hardware
/// queue; this is not for requests with scheduler tags.
template <class P>
void end_request_batch(RequestList<P>& done) {
  constexpr unsigned kMost = 32;
  std::array<unsigned, kMost> tags;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled up to `count`
  unsigned count = 0;
  TagUser<P>* user = nullptr;
  const auto flush = [&] {
    user->uncount_in_flight(count);
    user->tags().put_batch(std::span(tags).first(count));
    count = 0;
  };
  while (Request<P>* const request = done.pop()) {
    request->state.store(RequestState::kIdle);
    if (!request->put_and_test()) continue;
    if (count != 0 && (count == kMost || user != request->user)) flush();
    user = request->user;
    P::charge(platform::Cost::kTagFreeBatch);
    tags[count++] = request->tag.load();
  }
  if (count != 0) flush();
}

}  // namespace mqlab::blk
