#include <doctest/doctest.h>
#include <rapidcheck.h>
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/histogram.h"

namespace mqlab {

namespace {

Histogram of(const std::vector<std::uint64_t>& values) {
  Histogram histogram;
  for (const std::uint64_t value : values) histogram.record(value);
  return histogram;
}

}  // namespace

TEST_CASE("an empty histogram answers 0") {
  const Histogram histogram;
  CHECK(histogram.count() == 0);
  CHECK(histogram.min() == 0);
  CHECK(histogram.max() == 0);
  CHECK(histogram.mean() == 0.0);
  CHECK(histogram.quantile(0.5) == 0);
}

TEST_CASE("small values are exact") {
  const Histogram histogram = of({1, 2, 3, 4, 100});
  CHECK(histogram.count() == 5);
  CHECK(histogram.quantile(0.0) == 1);
  CHECK(histogram.quantile(0.5) == 3);
  CHECK(histogram.quantile(0.99) == 100);
  CHECK(histogram.mean() == doctest::Approx(22.0));
}

TEST_CASE("the largest possible value has a bucket") {
  const Histogram histogram = of({~std::uint64_t{0}});
  CHECK(histogram.max() == ~std::uint64_t{0});
  CHECK(histogram.quantile(1.0) == ~std::uint64_t{0});
}

TEST_CASE("a quantile is the sorted list's value, up to 1/128") {
  CHECK(rc::check("quantile against a sorted list", [](const std::vector<std::uint64_t>& values) {
    RC_PRE(!values.empty());
    std::vector<std::uint64_t> sorted = values;
    std::ranges::sort(sorted);
    const Histogram histogram = of(values);
    const double fraction = *rc::gen::map(rc::gen::inRange(0, 1001), [](int x) { return x / 1000.0; });
    const auto rank =
        std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(sorted.size()))));
    const std::uint64_t exact = sorted[rank - 1];
    const std::uint64_t measured = histogram.quantile(fraction);
    RC_ASSERT(measured >= exact);
    RC_ASSERT(measured - exact <= exact / 128);
  }));
}

TEST_CASE("merging is the same as recording everything in one") {
  CHECK(rc::check("merge", [](const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
    Histogram merged = of(a);
    merged.merge(of(b));
    std::vector<std::uint64_t> both = a;
    both.insert(both.end(), b.begin(), b.end());
    const Histogram whole = of(both);
    RC_ASSERT(merged.count() == whole.count());
    RC_ASSERT(merged.min() == whole.min());
    RC_ASSERT(merged.max() == whole.max());
    RC_ASSERT(merged.quantile(0.5) == whole.quantile(0.5));
  }));
}

TEST_CASE("recording many times at once counts each") {
  Histogram histogram;
  histogram.record(10, 99);
  histogram.record(1000, 1);
  histogram.record(5, 0);
  CHECK(histogram.count() == 100);
  CHECK(histogram.min() == 10);
  CHECK(histogram.quantile(0.99) == 10);
}

}  // namespace mqlab
