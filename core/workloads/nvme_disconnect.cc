// An NVMe controller with many namespaces is deleted, as a disconnect from a fabrics target does.
#include <memory>

#include "drivers/nvme.h"
#include "workloads/builtin.h"
#include "workloads/life_policies.h"
#include "workloads/sim_run.h"

namespace mqlab::workloads {

namespace {

using P = sim::Platform;

struct World {
  std::unique_ptr<drivers::NvmeController<P>> controller;
};

void measure(const Json& spec, sim::Machine& machine, SimKernel& kernel, World& world, Json& result) {
  const Json& params = spec.at("params");
  const bool tcp = params.at("transport") == "tcp";
  const bool serial = spec.at("policies").at("ns_removal") == "serial";
  world.controller = std::make_unique<drivers::NvmeController<P>>(
      kernel,
      drivers::NvmeConfig{.transport = tcp ? drivers::NvmeTransport::kTcp : drivers::NvmeTransport::kLoop,
                          .namespaces = params.at("namespaces").get<unsigned>(),
                          .queues = params.at("queues").get<unsigned>(),
                          .depth = params.at("depth").get<unsigned>(),
                          .tags_srcu = tags_srcu(spec)},
      drivers::NvmePolicies{.removal = serial ? drivers::NsRemoval::kSerial : drivers::NsRemoval::kParallel,
                            .elv_flag_lock = elv_flag_lock(spec)});
  world.controller->connect();
  machine.sleep_ns(kSettleNs);

  const std::uint64_t begin_ns = machine.now_ns();
  world.controller->delete_ctrl();
  const double total_ms = ms(machine.now_ns() - begin_ns);

  Json remove_ms = Json::array();
  double sum_ms = 0;
  for (const auto& removal : world.controller->removals()) {
    remove_ms.push_back(ms(removal.end_ns - removal.begin_ns));
    sum_ms += ms(removal.end_ns - removal.begin_ns);
  }
  result["samples"]["disconnect_ms"] = {total_ms};
  result["samples"]["ns_remove_ms"] = std::move(remove_ms);
  result["samples"]["overlap_ratio"] = {sum_ms / total_ms};
}

Json run(const Json& spec) {
  return run_simulated<World>(spec, [&](auto& machine, auto& kernel, auto& world, auto& result) {
    measure(spec, machine, kernel, world, result);
  });
}

}  // namespace

Workload nvme_disconnect_workload() {
  std::vector<Param> params = machine_params();
  params.insert(params.end(), {{.name = "namespaces", .min = 1, .max = 1024},
                               {.name = "queues", .min = 1, .max = 256},
                               {.name = "depth", .min = 1, .max = 10'240},
                               {.name = "transport", .min = 0, .max = 0, .choices = {"tcp", "loop"}}});
  return {
      .name = "nvme_disconnect",
      .help = "Deletes an NVMe controller: its namespaces, their multipath heads, its queues.",
      .targets = {"sim"},
      .run = run,
      .defaults = {{"hz", 1000}, {"cpus", 4}, {"namespaces", 64}, {"queues", 4}, {"depth", 128}, {"transport", "tcp"}},
      .params = std::move(params),
      .policies = {{.name = "ns_removal", .choices = {"serial", "parallel"}}, elv_flag_policy(), tags_srcu_policy()}};
}

}  // namespace mqlab::workloads
