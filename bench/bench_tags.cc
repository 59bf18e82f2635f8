// Tags allocated and freed: one by one, in batches of 32, by one thread and by two; and the simulated reader of
// plug_batch. Items are tags, and reads.
#include <benchmark/benchmark.h>

#include <array>
#include <memory>
#include <string>

#include "platform/cost.h"
#include "tag_pools.h"
#include "workloads/workload.h"

namespace mqlab::bench {

namespace {

constexpr unsigned kDepth = 1023;

template <class Pool>
void allocate_and_free(benchmark::State& state, unsigned batch) {
  static std::unique_ptr<Pool> pool;
  native::current_slot = static_cast<unsigned>(state.thread_index()) % native::nr_slots();
  if (state.thread_index() == 0) pool = std::make_unique<Pool>(kDepth);
  std::array<std::uint32_t, 64> tags{};
  std::int64_t done = 0;
  for (auto _ : state) {
    const unsigned got = pool->get(tags.data(), batch);
    benchmark::DoNotOptimize(tags);
    if (got != 0) pool->put(tags.data(), got);
    done += got;
  }
  state.SetItemsProcessed(done);
  state.SetLabel("tags/s");
}

template <class Pool>
void register_pool() {
  for (const unsigned batch : {1U, 32U})
    for (const int threads : {1, 2}) {
      const std::string subject = batch == 1 ? "tags_single" : "tags_batch_" + std::to_string(batch);
      const std::string name = subject + "/" + Pool::kName;
      benchmark::RegisterBenchmark(name.c_str(), allocate_and_free<Pool>, batch)->Threads(threads)->UseRealTime();
    }
}

/// Every cost 20 ns, the devices as the published profile has them.
workloads::Json profile() {
  workloads::Json values = workloads::Json::object();
  for (const auto& info : platform::kCostInfo) values[std::string(info.name)] = 20;
  values.update(
      {{"cost_spread", 0}, {"optane_read", 10'000}, {"optane_slow_one_in", 1000}, {"optane_slow_factor", 200}});
  return {{"name", "published"}, {"values", values}};
}

void simulated_reads(benchmark::State& state) {
  constexpr int kReads = 200'000;
  const workloads::Json spec = {
      {"target", "sim"},
      {"params", {{"device", "optane"}, {"devices", 2}, {"tags", kDepth}, {"cpus_allowed", 1}, {"ios", kReads}}},
      {"profile", profile()}};
  double points = 0;
  for (auto _ : state) {
    const workloads::Json result = workloads::run_workload("plug_batch", spec);
    points += result.at("counters").at("scheduling_points").get<double>();
  }
  state.SetItemsProcessed(state.iterations() * kReads);
  state.SetLabel("reads/s");
  state.counters["points_per_read"] = points / static_cast<double>(state.iterations()) / kReads;
}
BENCHMARK(simulated_reads)->Name("sim_plug_batch/ours")->Unit(benchmark::kMillisecond);

[[maybe_unused]] const bool registered = [] {
  register_pool<OurTags>();
  register_pool<MutexBitmap>();
  return true;
}();

}  // namespace

}  // namespace mqlab::bench
