// Random creation and destruction of devices, elevator switches, changes of depth and of queues, and iterators, all at
// once, with object lifetimes tracked. What the checks find is counted, not thrown: a report names the fault and the
// seed that replays it.
#include <memory>
#include <vector>

#include "base/error.h"
#include "drivers/null_blk.h"
#include "workloads/builtin.h"
#include "workloads/life_policies.h"
#include "workloads/sim_run.h"

namespace mqlab::workloads {

namespace {

using P = sim::Platform;
using Device = drivers::NullBlkDevice<P>;

struct World {
  std::unique_ptr<drivers::NullBlk<P>> driver;
  std::vector<std::shared_ptr<Device>> lasting;  // iterated, resized, switched
  std::vector<std::shared_ptr<Device>> passing;  // created and destroyed, switched while they go
};

class Stress {
 public:
  Stress(const Json& spec, sim::Machine& machine, SimKernel& kernel, World& world)
      : machine_(machine),
        kernel_(kernel),
        world_(world),
        config_{.queues = 2, .depth = 16, .blocking = false, .tags_srcu = tags_srcu(spec)},
        steps_(spec.at("params").at("steps").get<unsigned>()) {
    world_.driver = std::make_unique<drivers::NullBlk<P>>(kernel_, elv_flag_lock(spec));
    for (unsigned i = 0; i < 3; ++i) world_.lasting.push_back(create());
  }

  void run(unsigned threads) {
    std::vector<sim::Task*> tasks;
    for (unsigned i = 0; i < threads; ++i)
      tasks.push_back(machine_.spawn({.name = "stress " + std::to_string(i)}, [this] {
        for (unsigned step = 0; step < steps_; ++step) act();
      }));
    for (sim::Task* task : tasks) machine_.join(task);
  }

 private:
  std::shared_ptr<Device> create() {
    auto device = std::make_shared<Device>(kernel_, config_);
    world_.driver->create(*device);
    return device;
  }

  const std::shared_ptr<Device>& any() { return world_.lasting[P::random_below(world_.lasting.size())]; }

  void act() {
    machine_.sleep_ns(P::random_below(300'000));
    switch (P::random_below(6)) {
      case 0:
        iterate();
        break;
      case 1:
        any()->set.resize(8U + static_cast<unsigned>(P::random_below(24)));
        break;
      case 2:
        any()->disk->switch_elevator(P::random_below(2) == 0);
        break;
      case 3:
        come_and_go();
        break;
      default:
        mark_busy();
    }
  }

  void mark_busy() { any()->set.occupy(0); }

  void iterate() {
    any()->set.busy_iter([&](unsigned, unsigned) { machine_.sleep_ns(P::random_below(200'000)); });
  }

  // The switch comes from sysfs, which the disk's deletion does not wait for.
  void come_and_go() {
    const std::shared_ptr<Device> device = create();
    sim::Task* const writer = machine_.spawn({.name = "sysfs writer"}, [this, device] {
      machine_.sleep_ns(P::random_below(3'000'000));
      if (device->disk) switch_unless_gone(*device);
    });
    world_.driver->destroy_disk(*device, [&] { machine_.join(writer); });
  }

  static void switch_unless_gone(Device& device) { device.disk->switch_elevator(true); }

  sim::Machine& machine_;
  SimKernel& kernel_;
  World& world_;
  blk::TagSetConfig config_;
  unsigned steps_;
};

Json run(const Json& spec) {
  unsigned reports = 0;
  Json result = {{"samples", Json::object()}, {"counters", Json::object()}, {"notes", Json::array()}};
  try {
    result = run_simulated<World>(spec, [&](auto& machine, auto& kernel, auto& world, auto&) {
      Stress(spec, machine, kernel, world).run(spec.at("params").at("threads").template get<unsigned>());
    });
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kViolation) throw;
    reports = 1;
    result["notes"].push_back(error.what());
  }
  result["samples"]["reports"] = {reports};
  result["samples"]["violations"] = {reports};
  return result;
}

}  // namespace

Workload life_stress_workload() {
  std::vector<Param> params = machine_params();
  params.insert(params.end(), {{.name = "threads", .min = 1, .max = 256}, {.name = "steps", .min = 1, .max = 100'000}});
  return {.name = "life_stress",
          .help = "Devices come and go, elevators and depths change, iterators walk: counts what the checks report.",
          .targets = {"sim"},
          .run = run,
          .defaults = {{"hz", 1000}, {"cpus", 8}, {"threads", 8}, {"steps", 50}},
          .params = std::move(params),
          .policies = {tags_srcu_policy(), elv_flag_policy()}};
}

}  // namespace mqlab::workloads
