// The SCSI model: budgets, completions that run what was refused, vectors and their irq threads.
#include <doctest/doctest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "drivers/scsi.h"
#include "platform/sim/platform.h"

using namespace mqlab;
using P = sim::Platform;
using Device = drivers::ScsiDevice<P>;
using Request = blk::QueuedRequest<P>;

namespace {

constexpr std::uint64_t kIoNs = 10'000;

struct World {
  World(const drivers::ScsiConfig& config, unsigned requests_)
      : kblockd(1),
        device(kblockd, config, {.guard = blk::QuiesceGuard::kRawSpinlock},
               [this](Request&) {
                 ++done;
                 by.insert(sim::Machine::current().current_task()->name());
               }),
        requests(requests_) {}
  blk::Kblockd<P> kblockd;
  Device device;
  std::vector<Request> requests;
  unsigned done = 0;
  std::set<std::string> by;
};

void in_world(unsigned cpus, const drivers::ScsiConfig& config, unsigned requests,
              const std::function<void(World&)>& body) {
  sim::MachineConfig machine_config;
  machine_config.cpus = cpus;
  machine_config.costs[platform::index(platform::Cost::kScsiDeviceIo)] = kIoNs;
  sim::Machine machine(machine_config);
  std::unique_ptr<World> world;
  machine.run([&] {
    world = std::make_unique<World>(config, requests);
    P::sleep_ns(1000);
    body(*world);
  });
}

}  // namespace

TEST_CASE("never more commands than the queue depth are in flight, and all are done in the end") {
  in_world(4, {.queue_depth = 3, .hw_queues = 4}, 40, [](World& w) {
    for (Request& request : w.requests) {
      w.device.queue().submit(request);
      CHECK(w.device.queue().counters().dispatched - w.done <= 3);
    }
    P::sleep_ns(100'000'000);
    CHECK(w.done == 40);
    CHECK(w.device.queue().counters().budget_refused > 0);
    CHECK(w.device.all_queue_runs() > 0);
  });
}

TEST_CASE("completions run all hardware queues only once a budget was refused") {
  in_world(4, {.queue_depth = 64, .hw_queues = 4}, 40, [](World& w) {
    for (Request& request : w.requests) w.device.queue().submit(request);
    P::sleep_ns(100'000'000);
    CHECK(w.done == 40);
    CHECK(w.device.all_queue_runs() == 0);
    CHECK(w.device.queue().counters().runs == 0);
  });
}

TEST_CASE("the device's rate is that of its mean service time") {
  in_world(1, {.queue_depth = 5000, .hw_queues = 1}, 4000, [](World& w) {
    const std::uint64_t start_ns = P::now_ns();
    for (Request& request : w.requests) w.device.queue().submit(request);
    while (w.done < 4000) P::sleep_ns(kIoNs);
    const double mean_ns = static_cast<double>(P::now_ns() - start_ns) / 4000;
    // Exponential: the mean of 4000 draws is within 5 % of the mean at three standard deviations.
    CHECK(mean_ns == doctest::Approx(kIoNs).epsilon(0.05));
  });
}

TEST_CASE("a vector of its own for each hardware queue, or sixteen commands to each vector in turn") {
  for (const auto choice : {drivers::VectorChoice::kHwQueue, drivers::VectorChoice::kBalanced})
    in_world(4, {.queue_depth = 64, .hw_queues = 4, .controller = {.vectors = 4, .vector_choice = choice}}, 33,
             [choice](World& w) {
               for (Request& request : w.requests) w.device.queue().submit(request);  // all from CPU 0
               P::sleep_ns(100'000'000);
               CHECK(w.done == 33);
               if (choice == drivers::VectorChoice::kHwQueue)
                 CHECK(w.by == std::set<std::string>{"irq/0-scsi"});
               else
                 CHECK(w.by == std::set<std::string>{"irq/0-scsi", "irq/1-scsi", "irq/2-scsi"});
             });
}

TEST_CASE("a device that is told to hurry takes its part of the time") {
  in_world(1, {.queue_depth = 5000, .hw_queues = 1}, 4000, [](World& w) {
    w.device.controller().set_speed(8);
    const std::uint64_t start_ns = P::now_ns();
    for (Request& request : w.requests) w.device.queue().submit(request);
    while (w.done < 4000) P::sleep_ns(kIoNs / 8);
    CHECK(static_cast<double>(P::now_ns() - start_ns) / 4000 == doctest::Approx(kIoNs / 8.0).epsilon(0.05));
  });
}

TEST_CASE("with a budget for each hardware queue a completion runs its own queue alone") {
  in_world(4, {.queue_depth = 8, .hw_queues = 4, .budget = drivers::BudgetScope::kHwQueue}, 40, [](World& w) {
    for (Request& request : w.requests) w.device.queue().submit(request);
    P::sleep_ns(100'000'000);
    CHECK(w.done == 40);
    CHECK(w.device.all_queue_runs() == 0);
    CHECK(w.device.queue().counters().budget_refused > 0);
  });
}
