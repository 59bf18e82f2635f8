// Workload `device_stress` on real devices: ublk and null_blk devices come and go while others read and write them,
// switch their schedulers, change their nr_requests, read their inflight and debugfs files and take CPUs offline.
//
// What it is after shows in the kernel's log: a report of KASAN, lockdep or the debug objects. Its own result says
// what was covered (stress_tally.h). Devices are gone and CPUs back when it returns, also when it throws.
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "workloads/builtin.h"
#include "workloads/device_crew.h"
#include "workloads/stress_worker.h"

namespace mqlab::workloads {
namespace {

using Make = std::unique_ptr<StressWorker> (*)(const StressOptions&, LiveDevices&, Random);

// Every kind of worker; with more threads than kinds they are dealt out again from the start.
constexpr std::array<Make, 6> kKinds = {&make_ublk_churner, &make_null_blk_churner, &make_reader, &make_io_worker,
                                        &make_tuner,        &make_hotplugger};

// Shared with the threads of the crew, since one that hangs in the kernel outlives the run.
class Stress : public std::enable_shared_from_this<Stress> {
 public:
  Stress(const Json& params, std::uint64_t seed) : seconds_(params.at("seconds").get<std::int64_t>()) {
    options_.limit = std::chrono::milliseconds(params.at("limit_ms").get<std::int64_t>());
    options_.cpus = std::max(1U, std::thread::hardware_concurrency());
    options_.devices = params.at("devices").get<std::size_t>();
    const bool hotplug = params.at("hotplug").get<bool>();
    Random random(seed);
    const std::size_t kinds = hotplug ? kKinds.size() : kKinds.size() - 1;
    const auto threads = std::max(params.at("threads").get<std::size_t>(), kinds);
    for (std::size_t i = 0; i < threads; ++i) {
      // One takes CPUs offline; the others share the rest of the work.
      const std::size_t kind = i < kinds ? i : (i - kinds) % (kKinds.size() - 1);
      workers_.push_back(kKinds.at(kind)(options_, live_, random.split()));
    }
  }

  Json run() {
    const auto self = shared_from_this();
    const auto end = std::chrono::steady_clock::now() + seconds_;
    const Crew crew(workers_.size(), std::chrono::milliseconds(seconds_) + 4 * options_.limit);
    try {
      const std::uint64_t elapsed_ns =
          crew.run({.name = "a worker of the stress run",
                    .items = workers_.size(),
                    .step = [self, end](std::size_t, std::size_t item) { self->workers_[item]->run(end); }});
      return result(elapsed_ns);
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kTimeout) throw;
      throw Error(error.kind, std::string(error.what()) + "; the workers were in: " + where(), error.remedy);
    }
  }

 private:
  std::string where() const {
    std::string text;
    for (const auto& worker : workers_) text += (text.empty() ? "" : ", ") + std::string(worker->current());
    return text;
  }

  Json result(std::uint64_t elapsed_ns) const {
    StressTally all;
    for (const auto& worker : workers_) all.add(worker->tally());
    Json counters = all.counters();
    counters["threads"] = workers_.size();
    return {{"samples", {{"elapsed_ns", Json::array({elapsed_ns})}}}, {"counters", counters}, {"notes", all.notes()}};
  }

  std::chrono::seconds seconds_;
  StressOptions options_;
  LiveDevices live_;
  std::vector<std::unique_ptr<StressWorker>> workers_;
};

Json run(const Json& spec) {
  return std::make_shared<Stress>(spec.at("params"), spec.at("seed").get<std::uint64_t>())->run();
}

}  // namespace

Workload device_stress_workload() {
  return {.name = "device_stress",
          .help = "Devices come and go under I/O, scheduler and depth changes, readers and CPU hotplug.",
          .targets = {"device"},
          .run = run,
          .defaults = {{"seconds", 60}, {"threads", 12}, {"devices", 4}, {"hotplug", true}, {"limit_ms", 120000}},
          .params = {{.name = "seconds", .min = 1, .max = 86400},
                     {.name = "threads", .min = 1, .max = 256},
                     {.name = "devices", .min = 1, .max = 64},
                     {.name = "hotplug"},
                     {.name = "limit_ms", .min = 1, .max = 3600000}}};
}

}  // namespace mqlab::workloads
