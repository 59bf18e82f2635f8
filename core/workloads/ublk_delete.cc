// ublk devices are added and started, then deleted by some threads: STOP_DEV, the server's exit, DEL_DEV.
#include <memory>
#include <vector>

#include "drivers/ublk.h"
#include "workloads/builtin.h"
#include "workloads/life_policies.h"
#include "workloads/sim_run.h"

namespace mqlab::workloads {

namespace {

using P = sim::Platform;

struct World {
  std::unique_ptr<drivers::UblkControl<P>> control;
  std::vector<std::unique_ptr<drivers::UblkDevice<P>>> devices;
};

drivers::UblkPolicies policies(const Json& spec) {
  const bool outside = spec.at("policies").at("ublk_final_put") == "outside_mutex";
  return {.final_put = outside ? drivers::UblkFinalPut::kOutsideMutex : drivers::UblkFinalPut::kUnderMutex,
          .elv_flag_lock = elv_flag_lock(spec)};
}

void measure(const Json& spec, sim::Machine& machine, SimKernel& kernel, World& world, Json& result) {
  const Json& params = spec.at("params");
  const bool life = params.at("started") == 1;
  const blk::TagSetConfig config{.queues = params.at("queues").get<unsigned>(),
                                 .depth = params.at("depth").get<unsigned>(),
                                 .blocking = false,
                                 .tags_srcu = tags_srcu(spec)};
  world.control = std::make_unique<drivers::UblkControl<P>>(kernel, policies(spec));
  std::size_t bytes = 0;
  for (auto left = params.at("devices").get<std::size_t>(); left > 0; --left) {
    world.devices.push_back(std::make_unique<drivers::UblkDevice<P>>(kernel, config));
    world.control->add_dev(*world.devices.back());
    if (life) world.control->start_dev(*world.devices.back());
    bytes += world.devices.back()->set().protection_bytes();
  }
  machine.sleep_ns(kSettleNs);

  Json stop_ms = Json::array();
  Json del_ms = Json::array();
  Json wait_ms = Json::array();
  const std::uint64_t points = machine.scheduling_points();
  const auto threads = params.at("threads").get<unsigned>();
  const std::uint64_t total_ns = from_threads(machine, world.devices.size(), threads, [&](std::size_t i) {
    auto& device = *world.devices[i];
    if (life) {
      const std::uint64_t begin_ns = machine.now_ns();
      world.control->stop_dev(device);
      stop_ms.push_back(ms(machine.now_ns() - begin_ns));
      world.control->server_exit(device);
    }
    const std::uint64_t begin_ns = machine.now_ns();
    world.control->del_dev(device);
    del_ms.push_back(ms(machine.now_ns() - begin_ns));
    wait_ms.push_back(ms(device.set().free_wait_ns()));
  });
  const auto count = static_cast<double>(world.devices.size());
  result["counters"]["scheduling_points_per_delete"] =
      static_cast<double>(machine.scheduling_points() - points) / count;
  if (life) result["samples"]["stop_dev_ms"] = std::move(stop_ms);
  result["samples"]["del_dev_ms"] = std::move(del_ms);
  result["samples"]["tag_set_free_wait_ms"] = std::move(wait_ms);
  result["samples"]["delete_total_ms"] = {ms(total_ns)};
  result["samples"]["bytes_per_tag_set"] = {static_cast<double>(bytes) / count};
}

Json run(const Json& spec) {
  return run_simulated<World>(spec, [&](auto& machine, auto& kernel, auto& world, auto& result) {
    measure(spec, machine, kernel, world, result);
  });
}

}  // namespace

Workload ublk_delete_workload() {
  Json defaults = device_defaults(1000, 1);
  defaults["started"] = 1;
  std::vector<Param> params = device_params();
  params.push_back({.name = "started", .min = 0, .max = 1});
  return {.name = "ublk_delete",
          .help = "Deletes ublk devices: STOP_DEV, server exit and DEL_DEV of each; with started=0 DEL_DEV alone.",
          .targets = {"sim"},
          .run = run,
          .defaults = std::move(defaults),
          .params = std::move(params),
          // The second patch of the thread drops an argument, which no code here ever had: both choices run the same.
          .policies = {tags_srcu_policy(),
                       {.name = "tag_set_argument", .choices = {"kept", "dropped"}},
                       {.name = "ublk_final_put", .choices = {"under_mutex", "outside_mutex"}},
                       elv_flag_policy()}};
}

}  // namespace mqlab::workloads
