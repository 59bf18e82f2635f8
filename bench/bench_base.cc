// Random numbers and histograms, against what the standard library offers for the same.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/histogram.h"
#include "base/random.h"

namespace mqlab {

namespace {

constexpr std::uint64_t kBound = 1000;
constexpr std::size_t kValues = 100'000;

void random_below_ours(benchmark::State& state) {
  Random random(1);
  for (auto _ : state) benchmark::DoNotOptimize(random.below(kBound));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(random_below_ours)->Name("random_below/ours");

void random_below_peer(benchmark::State& state) {
  std::mt19937_64 engine(1);
  std::uniform_int_distribution<std::uint64_t> distribution(0, kBound - 1);
  for (auto _ : state) benchmark::DoNotOptimize(distribution(engine));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(random_below_peer)->Name("random_below/peer:mt19937_64");

// The median of many latencies: counted in buckets, or kept and partly sorted.
void median_ours(benchmark::State& state) {
  Random random(1);
  for (auto _ : state) {
    Histogram histogram;
    for (std::size_t i = 0; i < kValues; ++i) histogram.record(random() >> 40U);
    benchmark::DoNotOptimize(histogram.quantile(0.5));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kValues));
}
BENCHMARK(median_ours)->Name("histogram_median/ours");

void median_peer(benchmark::State& state) {
  Random random(1);
  for (auto _ : state) {
    std::vector<std::uint64_t> values;
    for (std::size_t i = 0; i < kValues; ++i) values.push_back(random() >> 40U);
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    benchmark::DoNotOptimize(*middle);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kValues));
}
BENCHMARK(median_peer)->Name("histogram_median/peer:nth_element");

}  // namespace

}  // namespace mqlab
