// A histogram of non-negative integers (mostly nanoseconds) with a fixed relative error and a fixed size.
#pragma once

#include <cstdint>
#include <vector>

namespace mqlab {

// Values below 256 are counted exactly; larger ones in buckets whose width is at most 1/128 of the value.
// Recording costs a shift and an increment, and never allocates. Not thread safe: one a thread, then merge.
//
// Invariant: count() is the sum of all buckets, and min() and max() are recorded values, never bucket edges.
class Histogram {
 public:
  Histogram();

  void record(std::uint64_t value) noexcept { record(value, 1); }
  void record(std::uint64_t value, std::uint64_t times) noexcept;
  void merge(const Histogram& other) noexcept;

  std::uint64_t count() const noexcept { return count_; }
  std::uint64_t min() const noexcept { return count_ == 0 ? 0 : min_; }
  std::uint64_t max() const noexcept { return max_; }
  double mean() const noexcept;

  // The smallest value v such that at least `fraction` (clamped to [0, 1]) of the recorded values are <= v,
  // up to the bucket's width: the highest value of v's bucket, but never above max(). 0 when nothing was
  // recorded.
  std::uint64_t quantile(double fraction) const noexcept;

 private:
  static std::size_t bucket_of(std::uint64_t value) noexcept;
  static std::uint64_t highest_in(std::size_t bucket) noexcept;

  std::vector<std::uint64_t> buckets_;
  std::uint64_t count_ = 0;
  std::uint64_t min_ = ~std::uint64_t{0};
  std::uint64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace mqlab
