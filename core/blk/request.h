// A request, and lists of them.
//
// A request exists once for each tag and is used again and again. It counts references, because an iterator over busy
// tags holds one while it looks; the tag is freed with the last.
//
// Thread safety: owned by whoever allocated it, except `state` and the reference count, which iterators touch too.
// Lists have one owner. Invariant: the reference count is zero exactly while the request's tag is free.
#pragma once

#include <cstdint>

#include "blk/sbitmap.h"

namespace mqlab::blk {

inline constexpr unsigned kNoTag = kNoBit;

enum class RequestState : std::uint8_t { kIdle, kInFlight, kComplete };

template <class P>
class TagUser;

template <class P>
struct Request {
  TagUser<P>* user = nullptr;  ///< the hardware queue it was allocated for
  typename P::template relaxed<unsigned> tag{
      kNoTag};                     ///< driver tag; iterators look at it before they have a reference
  unsigned internal_tag = kNoTag;  ///< scheduler tag
  unsigned cpu = 0;                ///< that allocated it
  typename P::template relaxed<RequestState> state{RequestState::kIdle};
  typename P::template atomic<std::uint32_t> references{0};
  Request* next = nullptr;
  void* data = nullptr;  ///< the driver's

  bool started() const { return state.load() != RequestState::kIdle; }
  bool completed() const { return state.load() == RequestState::kComplete; }

  /// Takes a reference unless the request is free.
  bool try_get() {
    std::uint32_t count = references.load(std::memory_order_relaxed);
    while (count != 0)
      if (references.compare_exchange_weak(count, count + 1, std::memory_order_acquire, std::memory_order_relaxed))
        return true;
    return false;
  }
  /// Gives one back; true for the last, who then frees the tag.
  [[nodiscard]] bool put_and_test() { return references.fetch_sub(1, std::memory_order_acq_rel) == 1; }
};

/// A singly linked list.
template <class P>
class RequestList {
 public:
  bool empty() const { return head_ == nullptr; }
  Request<P>* peek() const { return head_; }
  Request<P>* last() const { return tail_; }

  void add_head(Request<P>* request) {
    request->next = head_;
    if (head_ == nullptr) tail_ = request;
    head_ = request;
  }
  void add_tail(Request<P>* request) {
    request->next = nullptr;
    if (tail_ != nullptr)
      tail_->next = request;
    else
      head_ = request;
    tail_ = request;
  }
  /// The first one, or null.
  Request<P>* pop() {
    Request<P>* const request = head_;
    if (request == nullptr) return nullptr;
    head_ = request->next;
    if (head_ == nullptr) tail_ = nullptr;
    request->next = nullptr;
    return request;
  }

 private:
  Request<P>* head_ = nullptr;
  Request<P>* tail_ = nullptr;
};

}  // namespace mqlab::blk
