// Workload `ublk_random_reads`: random reads of a ublk disk whose server, our own, holds some of its requests back and
// answers the others in random order.
//
// It shows what a fragmented bitmap of tags does to the allocation of requests in batches: the server decides which
// tags are free when the reader's next batch comes. The measured window holds a steady state; its operations are reads.
//
// Thread safety: runs may overlap, but only one of them at a time has the measured window.
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/random.h"
#include "devices/kernel_setting.h"
#include "devices/ublk_disk.h"
#include "workloads/builtin.h"
#include "workloads/device_reads.h"

namespace mqlab::workloads {
namespace {

using devices::UblkDisk;
using devices::UblkDiskRequest;

// Several times as long as a server holds back what nothing comes after.
constexpr std::chrono::milliseconds kPartitionScan{100};

UblkDiskRequest disk_request(const Json& spec) {
  const Json& params = spec.at("params");
  UblkDiskRequest request;
  request.queues = params.at("queues").get<std::uint16_t>();
  request.depth = params.at("depth").get<std::uint16_t>();
  request.order.held_back = params.at("held_back").get<unsigned>();
  // Another seed of the run is another order too.
  request.order.seed =
      SplitMix64(spec.at("seed").get<std::uint64_t>()).next() + params.at("order_seed").get<unsigned>();
  request.limit = std::chrono::milliseconds(params.at("limit_ms").get<std::int64_t>());
  return request;
}

void check_reader_can_go_on(const Json& params) {
  const auto held_back = params.at("held_back").get<unsigned>();
  const auto depth = params.at("depth").get<unsigned>();
  const auto batch = params.at("batch").get<unsigned>();
  if (held_back + batch <= depth) return;
  throw Error(ErrorKind::kUsage,
              "the server holds back " + std::to_string(held_back) + " of " + std::to_string(depth) +
                  " requests, so a batch of " + std::to_string(batch) + " never completes",
              "hold back at most depth - batch");
}

Json notes_of(const io::ReadOutcome& outcome, std::uint64_t let_go) {
  Json notes = Json::array({outcome.ring});
  // Once at the end is how the reader gets its last reads.
  if (let_go > 1) {
    notes.push_back("the server let go " + std::to_string(let_go - 1) +
                    " times what it held back, since no more reads came: the order was not all its own");
  }
  return notes;
}

Json run(const Json& spec) {
  const Json& params = spec.at("params");
  check_reader_can_go_on(params);
  UblkDisk disk(disk_request(spec));
  const devices::KernelSetting scheduler(disk.queue_path() + "/scheduler", params.at("scheduler").get<std::string>());
  io::ReadJob job = read_job_of(spec);
  job.paths = {disk.path()};
  job.reads = params.at("ios").get<std::uint64_t>();
  job.warmup_reads = 8ULL * job.shape.depth;
  job.shape.stall_limit = std::chrono::milliseconds(params.at("limit_ms").get<std::int64_t>());
  job.marks_window = true;
  // The kernel may look for partitions after START has returned; what is held back of that is let go by then.
  std::this_thread::sleep_for(kPartitionScan);
  const std::uint64_t let_go_before = disk.server().times_let_go();
  const io::ReadOutcome outcome = run_read_job(job);
  const std::uint64_t let_go = disk.server().times_let_go() - let_go_before;
  Json counters = read_counters(outcome);
  counters["queues"] = disk.info().nr_hw_queues;
  counters["depth"] = disk.info().queue_depth;
  counters["times_let_go"] = let_go;
  disk.remove();
  return {{"samples", read_samples(outcome)}, {"counters", counters}, {"notes", notes_of(outcome, let_go)}};
}

}  // namespace

Workload ublk_random_reads_workload() {
  Workload workload{.name = "ublk_random_reads",
                    .help =
                        "Random reads of a ublk disk whose server holds back `held_back` of its requests and "
                        "answers the others in random order.",
                    .targets = {"device"},
                    .run = run,
                    .defaults = {{"held_back", 0},
                                 {"depth", 128},
                                 {"batch", 32},
                                 {"block_bytes", 512},
                                 {"ios", 20000},
                                 {"order_seed", 1},
                                 {"queues", 1},
                                 {"scheduler", "none"},
                                 {"limit_ms", 30000}},
                    .params = read_params()};
  const std::vector<Param> own = {{.name = "held_back", .min = 0, .max = devices::ublk::kMaxQueueDepth},
                                  {.name = "ios", .min = 1, .max = 1e12},
                                  {.name = "order_seed", .min = 0, .max = 1e9},
                                  {.name = "queues", .min = 1, .max = devices::ublk::kMaxQueues},
                                  {.name = "scheduler", .choices = {"none", "mq-deadline", "kyber"}},
                                  {.name = "limit_ms", .min = 1, .max = 3600000}};
  workload.params.front().max = devices::ublk::kMaxQueueDepth;
  workload.params.insert(workload.params.end(), own.begin(), own.end());
  return workload;
}

}  // namespace mqlab::workloads
