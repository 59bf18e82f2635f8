// null_blk devices are created through configfs, then destroyed by some threads.
#include <memory>
#include <vector>

#include "drivers/null_blk.h"
#include "workloads/builtin.h"
#include "workloads/life_policies.h"
#include "workloads/sim_run.h"

namespace mqlab::workloads {

namespace {

using P = sim::Platform;

struct World {
  std::unique_ptr<drivers::NullBlk<P>> driver;
  std::vector<std::unique_ptr<drivers::NullBlkDevice<P>>> devices;
};

void measure(const Json& spec, sim::Machine& machine, SimKernel& kernel, World& world, Json& result) {
  const Json& params = spec.at("params");
  const blk::TagSetConfig config{.queues = params.at("queues").get<unsigned>(),
                                 .depth = params.at("depth").get<unsigned>(),
                                 .blocking = false,
                                 .tags_srcu = tags_srcu(spec)};
  world.driver = std::make_unique<drivers::NullBlk<P>>(kernel, elv_flag_lock(spec));
  for (auto left = params.at("devices").get<std::size_t>(); left > 0; --left) {
    world.devices.push_back(std::make_unique<drivers::NullBlkDevice<P>>(kernel, config));
    world.driver->create(*world.devices.back());
  }
  machine.sleep_ns(kSettleNs);

  Json destroy_ms = Json::array();
  const auto threads = params.at("threads").get<unsigned>();
  const std::uint64_t total_ns = from_threads(machine, world.devices.size(), threads, [&](std::size_t i) {
    const std::uint64_t begin_ns = machine.now_ns();
    world.driver->destroy(*world.devices[i]);
    destroy_ms.push_back(ms(machine.now_ns() - begin_ns));
  });
  result["samples"]["destroy_ms"] = std::move(destroy_ms);
  result["samples"]["destroy_total_ms"] = {ms(total_ns)};
}

Json run(const Json& spec) {
  return run_simulated<World>(spec, [&](auto& machine, auto& kernel, auto& world, auto& result) {
    measure(spec, machine, kernel, world, result);
  });
}

}  // namespace

Workload null_blk_destroy_workload() {
  return {.name = "null_blk_destroy",
          .help = "Destroys null_blk devices through configfs, the driver's mutex held over each.",
          .targets = {"sim"},
          .run = run,
          .defaults = device_defaults(500, 1),
          .params = device_params(),
          .policies = {
              tags_srcu_policy(), {.name = "tag_set_argument", .choices = {"kept", "dropped"}}, elv_flag_policy()}};
}

}  // namespace mqlab::workloads
