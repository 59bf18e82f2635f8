// Workload `random_reads`: random reads of given devices or files through io_uring, by one or several threads, for a
// time or a number of reads.
//
// Thread safety: runs may overlap, but only one of them at a time has the measured window.
#include <sstream>
#include <string>

#include "base/error.h"
#include "workloads/builtin.h"
#include "workloads/device_reads.h"

namespace mqlab::workloads {
namespace {

std::vector<std::string> paths_of(const std::string& text) {
  std::vector<std::string> paths;
  std::istringstream stream(text);
  for (std::string path; std::getline(stream, path, ',');) {
    if (!path.empty()) paths.push_back(path);
  }
  if (paths.empty()) {
    throw Error(ErrorKind::kUsage, "random_reads has no device to read", "give params.device, as in /dev/nvme0n1");
  }
  return paths;
}

Json run(const Json& spec) {
  const Json& params = spec.at("params");
  io::ReadJob job = read_job_of(spec);
  job.paths = paths_of(params.at("device").get<std::string>());
  job.threads = params.at("threads").get<unsigned>();
  job.reads = params.at("ios").get<std::uint64_t>();
  const auto seconds = params.at("seconds").get<double>();
  if (seconds > 0) {
    job.duration = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
  }
  job.warmup_reads = job.shape.depth;
  job.pinned = params.at("pinned").get<bool>();
  job.marks_window = true;
  const io::ReadOutcome outcome = run_read_job(job);
  return {
      {"samples", read_samples(outcome)}, {"counters", read_counters(outcome)}, {"notes", Json::array({outcome.ring})}};
}

}  // namespace

Workload random_reads_workload() {
  Workload workload{.name = "random_reads",
                    .help =
                        "Reads random blocks of devices or files (params.device, several with commas) through "
                        "io_uring; ends at `ios` reads or after `seconds`, whichever comes first (0: no limit).",
                    .targets = {"device"},
                    .run = run,
                    .defaults = {{"device", ""},
                                 {"threads", 1},
                                 {"depth", 128},
                                 {"batch", 32},
                                 {"block_bytes", 4096},
                                 {"ios", 0},
                                 {"seconds", 1.0},
                                 {"pinned", false}},
                    .params = read_params()};
  const std::vector<Param> own = {{.name = "device"},
                                  {.name = "threads", .min = 1, .max = 1024},
                                  {.name = "ios", .min = 0, .max = 1e12},
                                  {.name = "seconds", .min = 0, .max = 86400},
                                  {.name = "pinned"}};
  workload.params.insert(workload.params.end(), own.begin(), own.end());
  return workload;
}

}  // namespace mqlab::workloads
