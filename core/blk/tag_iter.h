// Looking at the requests behind allocated tags while they come and go.
//
// Source: block/blk-mq-tag.c of Linux 7.3 (behaviour). A tag may be allocated before its request is started, or be
// freed and taken again while it is looked at: so only a request that still has the tag and a reference to give is
// shown.
//
// Thread safety: with any allocation and freeing. That the tags themselves are not freed meanwhile is the caller's duty
// (blk/tag_set.h: an SRCU read lock). `visit` gets a request that stays allocated until it returns; it returns false to
// stop.
#pragma once

#include "blk/request_alloc.h"
#include "blk/tags.h"

namespace mqlab::blk {

namespace detail {

template <class P, class Visit>
bool for_each_request(Tags<P>& tags, bool reserved, Visit& visit) {
  bool goes_on = true;
  tags.bitmap(reserved).bits().for_each_set([&](unsigned bit) {
    const unsigned tag = bit + tags.offset(reserved);
    Request<P>* const request = tags.started(tag);
    if (request == nullptr || request->tag.load() != tag || !request->try_get()) return true;
    goes_on = visit(*request);
    if (request->put_and_test()) release_request(*request);
    return goes_on;
  });
  return goes_on;
}

template <class P, class Visit>
void for_each_request(Tags<P>& tags, Visit& visit) {
  if (tags.reserved() != 0 && !for_each_request(tags, true, visit)) return;
  for_each_request(tags, false, visit);
}

}  // namespace detail

/// Every started request of the tags.
template <class P, class Visit>
void for_each_started(Tags<P>& tags, Visit&& visit) {
  auto started = [&](Request<P>& request) { return !request.started() || visit(request); };
  detail::for_each_request(tags, started);
}

/// Every request of one hardware queue of a request queue (`user`), started or not; with null, of all that use the
/// tags.
template <class P, class Visit>
void for_each_busy(Tags<P>& tags, const TagUser<P>* user, Visit&& visit) {
  auto of_user = [&](Request<P>& request) { return (user != nullptr && request.user != user) || visit(request); };
  detail::for_each_request(tags, of_user);
}

/// Every allocated tag's own request, started or not. For callers that know that nothing is allocated or freed
/// meanwhile.
template <class P, class Visit>
void for_each_allocated(Tags<P>& tags, Visit&& visit) {
  bool goes_on = true;
  for (const bool reserved : {true, false}) {
    if (!goes_on) return;
    tags.bitmap(reserved).bits().for_each_set([&](unsigned bit) {
      goes_on = visit(tags.request(bit + tags.offset(reserved)));
      return goes_on;
    });
  }
}

}  // namespace mqlab::blk
