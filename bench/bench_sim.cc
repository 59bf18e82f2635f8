// The simulated machine at work: 16 threads delete 4000 started ublk devices on 16 CPUs. Items are scheduling points.
#include <benchmark/benchmark.h>

#include <string>

#include "platform/cost.h"
#include "workloads/workload.h"

namespace {

using mqlab::workloads::Json;

/// Every cost 1 us, the work on a disk 100 us: what a profile holds does not change the number of points by much.
Json profile() {
  Json values = Json::object();
  for (const auto& info : mqlab::platform::kCostInfo) {
    const std::string name(info.name);
    values[name] =
        name == "cost_spread" ? 50 : (name.starts_with("del_disk") || name.starts_with("ublk_") ? 100'000 : 1000);
  }
  return {{"name", "published"}, {"values", values}};
}

void delete_4000_ublk_devices(benchmark::State& state, const char* tags_srcu) {
  const Json spec = {{"target", "sim"},
                     {"seed", 1},
                     {"params", {{"devices", 4000}, {"threads", 16}, {"cpus", 16}, {"hz", 1000}}},
                     {"policies", {{"tags_srcu", tags_srcu}}},
                     {"profile", profile()}};
  double points = 0;
  double per_delete = 0;
  for (auto _ : state) {
    const Json result = mqlab::workloads::run_workload("ublk_delete", spec);
    points += result.at("counters").at("scheduling_points").get<double>();
    per_delete = result.at("counters").at("scheduling_points_per_delete").get<double>();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(points));
  state.SetLabel("scheduling points/s");
  state.counters["points_per_delete"] = per_delete;
  state.counters["wall_s_per_run"] = benchmark::Counter(static_cast<double>(state.iterations()),
                                                        benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

}  // namespace

BENCHMARK_CAPTURE(delete_4000_ublk_devices, per_set, "per_set")
    ->Name("sim_delete_4000_ublk_per_set/ours")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(delete_4000_ublk_devices, global, "global")
    ->Name("sim_delete_4000_ublk_global/ours")
    ->Unit(benchmark::kMillisecond);
