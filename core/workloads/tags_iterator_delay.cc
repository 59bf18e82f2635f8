// Devices are deleted while an iterator walks the tags of another set for long: what does it delay?
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
  std::unique_ptr<blk::TagSet<P>> iterated;
  std::vector<std::unique_ptr<drivers::UblkDevice<P>>> devices;
  std::vector<std::uint64_t> freed_after_ns;
  std::size_t frees_left = 0;
  P::completion all_freed{"deferred frees"};
};

/// The iterator: one request of its set is busy, and looking at it takes `hold_ns`.
void iterate(sim::Machine& machine, World& world, std::uint64_t hold_ns) {
  if (hold_ns == 0) return;
  machine.spawn({.name = "iterator"}, [&machine, &world, hold_ns] {
    world.iterated->occupy(0);
    world.iterated->busy_iter([&](unsigned, unsigned) { machine.sleep_ns(hold_ns); });
  });
  machine.sleep_ns(1000);
}

void measure(const Json& spec, sim::Machine& machine, SimKernel& kernel, World& world, Json& result) {
  const Json& params = spec.at("params");
  const auto hold_ns = params.at("iterator_hold_ms").get<std::uint64_t>() * 1'000'000;
  const auto devices = params.at("devices").get<std::size_t>();
  const blk::TagSetConfig config{.queues = 1, .depth = 16, .blocking = false, .tags_srcu = tags_srcu(spec)};
  world.control = std::make_unique<drivers::UblkControl<P>>(kernel, drivers::UblkPolicies{});
  world.iterated = std::make_unique<blk::TagSet<P>>(kernel, config);
  world.iterated->alloc();
  for (std::size_t i = 0; i < devices; ++i) {
    world.devices.push_back(std::make_unique<drivers::UblkDevice<P>>(kernel, config));
    world.control->add_dev(*world.devices.back());
  }
  machine.sleep_ns(kSettleNs);

  world.frees_left = devices;
  iterate(machine, world, hold_ns);
  Json del_ms = Json::array();
  for (auto& device : world.devices) {
    // A callback queued like the set's own frees tells when those are done.
    const std::uint64_t queued_ns = machine.now_ns();
    device->set().after_readers([&world, &machine, queued_ns] {
      world.freed_after_ns.push_back(machine.now_ns() - queued_ns);
      if (--world.frees_left == 0) world.all_freed.complete();
    });
    const std::uint64_t begin_ns = machine.now_ns();
    world.control->del_dev(*device);
    del_ms.push_back(ms(machine.now_ns() - begin_ns));
  }
  world.all_freed.wait();
  Json delay_ms = Json::array();
  for (const std::uint64_t ns : world.freed_after_ns) delay_ms.push_back(ms(ns));
  result["samples"]["del_dev_ms"] = std::move(del_ms);
  result["samples"]["free_delay_ms"] = std::move(delay_ms);
}

Json run(const Json& spec) {
  return run_simulated<World>(spec, [&](auto& machine, auto& kernel, auto& world, auto& result) {
    measure(spec, machine, kernel, world, result);
  });
}

}  // namespace

Workload tags_iterator_delay_workload() {
  std::vector<Param> params = machine_params();
  params.insert(params.end(),
                {{.name = "devices", .min = 1, .max = 10'000}, {.name = "iterator_hold_ms", .min = 0, .max = 10'000}});
  return {.name = "tags_iterator_delay",
          .help = "Deletes ublk devices while another set's tags are iterated for long.",
          .targets = {"sim"},
          .run = run,
          .defaults = {{"hz", 1000}, {"cpus", 16}, {"devices", 400}, {"iterator_hold_ms", 50}},
          .params = std::move(params),
          .policies = {tags_srcu_policy()}};
}

}  // namespace mqlab::workloads
