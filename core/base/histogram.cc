#include "base/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace mqlab {

namespace {

// Each power of two from 2^8 up is cut into 2^7 buckets of equal width; below, each value has its own.
constexpr unsigned kExactBits = 8;
constexpr unsigned kSubBits = kExactBits - 1;
constexpr std::size_t kExact = std::size_t{1} << kExactBits;
constexpr std::size_t kSub = std::size_t{1} << kSubBits;
constexpr std::size_t kBuckets = kExact + (64 - kExactBits) * kSub;

}  // namespace

Histogram::Histogram() : buckets_(kBuckets, 0) {}

std::size_t Histogram::bucket_of(std::uint64_t value) noexcept {
  if (value < kExact) return static_cast<std::size_t>(value);
  const auto shift = static_cast<unsigned>(std::bit_width(value)) - kExactBits;
  const auto sub = static_cast<std::size_t>(value >> shift) - kSub;
  return kExact + (shift - 1) * kSub + sub;
}

std::uint64_t Histogram::highest_in(std::size_t bucket) noexcept {
  if (bucket < kExact) return bucket;
  const std::size_t above = bucket - kExact;
  const auto shift = static_cast<unsigned>(above / kSub) + 1;
  const std::uint64_t lowest = static_cast<std::uint64_t>(above % kSub + kSub) << shift;
  return lowest + ((std::uint64_t{1} << shift) - 1);
}

void Histogram::record(std::uint64_t value, std::uint64_t times) noexcept {
  if (times == 0) return;
  buckets_[bucket_of(value)] += times;
  count_ += times;
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
  sum_ += static_cast<double>(value) * static_cast<double>(times);
}

void Histogram::merge(const Histogram& other) noexcept {
  for (std::size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
}

double Histogram::mean() const noexcept { return count_ == 0 ? 0.0 : sum_ / static_cast<double>(count_); }

std::uint64_t Histogram::quantile(double fraction) const noexcept {
  if (count_ == 0) return 0;
  const double wanted = std::ceil(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(count_));
  const auto rank = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(wanted));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen >= rank) return std::clamp(highest_in(i), min_, max_);
  }
  return max_;
}

}  // namespace mqlab
