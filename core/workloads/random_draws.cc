// The smallest workload: draws from the seeded generator. A known answer for every layer that carries a spec
// down and samples up, and the long-running one that cancelling is tried on.
#include "base/cancel.h"
#include "base/histogram.h"
#include "base/random.h"
#include "workloads/builtin.h"

namespace mqlab::workloads {

namespace {

constexpr std::uint64_t kDrawsBetweenPolls = 4096;

Json run(const Json& spec) {
  const Json& params = spec.at("params");
  const auto draws = params.at("draws").get<std::uint64_t>();
  const auto bound = params.at("bound").get<std::uint64_t>();
  const auto kept = params.at("kept").get<std::uint64_t>();

  Random random(spec.at("seed").get<std::uint64_t>());
  Histogram histogram;
  Json samples = Json::array();
  for (std::uint64_t i = 0; i < draws; ++i) {
    if (i % kDrawsBetweenPolls == 0) throw_if_cancelled();
    const std::uint64_t value = random.below(bound);
    histogram.record(value);
    if (i < kept) samples.push_back(value);
  }
  return {{"samples", {{"draw_count", std::move(samples)}}},
          {"counters", {{"draws", histogram.count()}, {"smallest", histogram.min()}, {"largest", histogram.max()}}},
          {"notes", Json::array()}};
}

}  // namespace

Workload random_draws_workload() {
  return {.name = "random_draws",
          .help = "Draws below a bound from the seeded generator; the first are returned.",
          .targets = {"sim", "native"},
          .run = run,
          .defaults = {{"draws", 1000}, {"bound", 1000}, {"kept", 10}},
          .params = {{.name = "draws", .min = 1, .max = 1e15},
                     {.name = "bound", .min = 1, .max = 1e15},
                     {.name = "kept", .min = 0, .max = 1e6}}};
}

}  // namespace mqlab::workloads
