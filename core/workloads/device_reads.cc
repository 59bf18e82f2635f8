#include "workloads/device_reads.h"

#include <array>
#include <utility>

namespace mqlab::workloads {
namespace {

// The largest that the kernel makes a ring for.
constexpr unsigned kMaxDepth = 32768;
constexpr std::uint32_t kMaxBlockBytes = 1U << 20U;

}  // namespace

io::ReadJob read_job_of(const Json& spec) {
  const Json& params = spec.at("params");
  io::ReadJob job;
  job.shape.depth = params.at("depth").get<unsigned>();
  job.shape.batch = job.shape.reap = params.at("batch").get<unsigned>();
  job.shape.block_bytes = params.at("block_bytes").get<std::uint32_t>();
  job.seed = spec.at("seed").get<std::uint64_t>();
  return job;
}

Json read_samples(const io::ReadOutcome& outcome) {
  Json samples = {{"reads_per_s", {outcome.reads_per_s()}},
                  {"mb_per_s", {outcome.mb_per_s()}},
                  {"elapsed_ns", {outcome.elapsed_ns}},
                  {"latency_mean_ns", {outcome.latency_ns.mean()}}};
  constexpr std::array<std::pair<const char*, double>, 5> kQuantiles = {{{"latency_p50_ns", 0.5},
                                                                         {"latency_p90_ns", 0.9},
                                                                         {"latency_p99_ns", 0.99},
                                                                         {"latency_p999_ns", 0.999},
                                                                         {"latency_max_ns", 1.0}}};
  for (const auto& [name, fraction] : kQuantiles) samples[name] = {outcome.latency_ns.quantile(fraction)};
  return samples;
}

Json read_counters(const io::ReadOutcome& outcome) {
  return {{"window_operations", outcome.reads}, {"submissions", outcome.submissions}};
}

std::vector<Param> read_params() {
  return {{.name = "depth", .min = 1, .max = kMaxDepth},
          {.name = "batch", .min = 1, .max = kMaxDepth},
          {.name = "block_bytes", .min = 512, .max = kMaxBlockBytes}};
}

}  // namespace mqlab::workloads
