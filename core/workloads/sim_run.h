// Runs one workload's tasks on a simulated machine and collects what they measured.
//
// Thread safety: one call a thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "blk/kernel.h"
#include "platform/sim/platform.h"
#include "workloads/sim_spec.h"
#include "workloads/workload.h"

namespace mqlab::workloads {

using SimKernel = blk::Kernel<sim::Platform>;

/// Virtual time that lets what setting up left behind (grace periods, callbacks) come to rest before measuring.
inline constexpr std::uint64_t kSettleNs = 200'000'000;

/// Runs `body(machine, kernel, world)` as the root task. World holds what tasks and callbacks use: it and the kernel
/// outlive the tasks, and World is built inside the machine, after the kernel. Adds the machine's counters to the
/// result.
template <class World>
Json run_simulated(const Json& spec, const std::function<void(sim::Machine&, SimKernel&, World&, Json&)>& body) {
  Json result = {{"samples", Json::object()}, {"counters", Json::object()}, {"notes", Json::array()}};
  sim::Machine machine(machine_config(spec));
  std::unique_ptr<SimKernel> kernel;
  std::unique_ptr<World> world;
  machine.run([&] {
    kernel = std::make_unique<SimKernel>();
    world = std::make_unique<World>();
    body(machine, *kernel, *world, result);
    result["counters"]["virtual_time_ns"] = machine.now_ns();
    result["counters"]["rcu_grace_periods"] = kernel->rcu.grace_periods();
  });
  result["counters"]["scheduling_points"] = machine.scheduling_points();
  result["counters"]["context_switches"] = machine.context_switches();
  return result;
}

/// Does `step(item)` for every item, from `threads` tasks that each take the next one. Returns the virtual time it
/// took.
inline std::uint64_t from_threads(sim::Machine& machine, std::size_t items, unsigned threads,
                                  const std::function<void(std::size_t)>& step) {
  const std::uint64_t begin_ns = machine.now_ns();
  std::size_t next = 0;
  std::vector<sim::Task*> tasks;
  for (unsigned i = 0; i < threads; ++i)
    tasks.push_back(machine.spawn({.name = "thread " + std::to_string(i)}, [&] {
      while (next < items) step(next++);
    }));
  for (sim::Task* task : tasks) machine.join(task);
  return machine.now_ns() - begin_ns;
}

inline double ms(std::uint64_t ns) { return static_cast<double>(ns) / 1e6; }

}  // namespace mqlab::workloads
