// The lanes that have something to do, least clock first; ties go to the lower lane, which keeps runs repeatable.
//
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace mqlab::sim {

/// A binary heap of lane numbers keyed by clock, with positions, so that a key can be changed in place.
class ReadyHeap {
 public:
  explicit ReadyHeap(std::size_t lanes) : key_(lanes, 0), position_(lanes, kAbsent) { heap_.reserve(lanes); }

  bool empty() const { return heap_.empty(); }
  unsigned top() const { return heap_[0]; }
  std::uint64_t top_key() const { return key_[heap_[0]]; }
  bool contains(unsigned lane) const { return position_[lane] != kAbsent; }

  /// Inserts the lane, or moves it to its new key.
  void put(unsigned lane, std::uint64_t key) {
    const bool present = contains(lane);
    key_[lane] = key;
    if (!present) {
      position_[lane] = heap_.size();
      heap_.push_back(lane);
    }
    sift_up(position_[lane]);
    sift_down(position_[lane]);
  }

  void remove(unsigned lane) {
    if (!contains(lane)) return;
    const std::size_t hole = position_[lane];
    position_[lane] = kAbsent;
    const unsigned last = heap_.back();
    heap_.pop_back();
    if (last == lane) return;
    heap_[hole] = last;
    position_[last] = hole;
    sift_up(hole);
    sift_down(position_[last]);
  }

 private:
  static constexpr std::size_t kAbsent = ~std::size_t{0};

  bool before(unsigned a, unsigned b) const { return key_[a] != key_[b] ? key_[a] < key_[b] : a < b; }
  void swap_at(std::size_t i, std::size_t j) {
    std::swap(heap_[i], heap_[j]);
    position_[heap_[i]] = i;
    position_[heap_[j]] = j;
  }
  void sift_up(std::size_t i) {
    for (; i > 0 && before(heap_[i], heap_[(i - 1) / 2]); i = (i - 1) / 2) swap_at(i, (i - 1) / 2);
  }
  void sift_down(std::size_t i) {
    for (;;) {
      std::size_t least = i;
      for (const std::size_t child : {2 * i + 1, 2 * i + 2})
        if (child < heap_.size() && before(heap_[child], heap_[least])) least = child;
      if (least == i) return;
      swap_at(i, least);
      i = least;
    }
  }

  std::vector<std::uint64_t> key_;
  std::vector<std::size_t> position_;
  std::vector<unsigned> heap_;
};

}  // namespace mqlab::sim
