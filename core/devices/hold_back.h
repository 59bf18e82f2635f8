// Which of its requests a server answers next: in order, or out of order with some always held back.
//
// A server that holds `held_back` requests answers those above that number, each time one of all that it has at
// random. So the tags that are free at any moment are scattered, as behind a device whose reads take very different
// times. With none held back it answers in order.
//
// Thread safety: none; each queue has its own. Invariant: every tag that was taken is given back exactly once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/random.h"

namespace mqlab::devices {

struct CompletionOrder {
  unsigned held_back = 0;
  std::uint64_t seed = 1;
};

class HoldBack {
 public:
  HoldBack(const CompletionOrder& order, std::uint16_t queue_id)
      : held_back_(order.held_back), random_(order.seed + queue_id) {}

  void take(std::uint16_t tag) { held_.push_back(tag); }
  bool empty() const noexcept { return held_.empty(); }

  // Calls `answer(tag)` for each request that is not held back any more. Returns how many there were.
  template <class Answer>
  std::size_t answer_surplus(Answer&& answer) {
    if (held_back_ == 0) return answer_all(answer);
    std::size_t count = 0;
    for (; held_.size() > held_back_; ++count) {
      const std::size_t chosen = random_.below(held_.size());
      const std::uint16_t tag = std::exchange(held_[chosen], held_.back());
      held_.pop_back();
      answer(tag);
    }
    return count;
  }

  // Calls `answer(tag)` for all of them, in the order in which they stand.
  template <class Answer>
  std::size_t answer_all(Answer&& answer) {
    const std::size_t count = held_.size();
    for (const std::uint16_t tag : held_) answer(tag);
    held_.clear();
    return count;
  }

 private:
  unsigned held_back_;
  Random random_;
  std::vector<std::uint16_t> held_;
};

}  // namespace mqlab::devices
