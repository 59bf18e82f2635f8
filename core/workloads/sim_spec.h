// From a spec to the simulated machine that it asks for.
//
// Thread safety: pure functions.
#pragma once

#include "platform/sim/machine.h"
#include "workloads/workload.h"

namespace mqlab::workloads {

/// The machine of a complete spec: params hz and cpus, the seed, and the profile's costs. The profile `guest` is an
/// emulator, whose CPUs take turns on one clock and start locked to the tick; on every other one all CPUs run at once
/// and the start lies at a random phase of the tick. An Error of kind kUsage names each cost that the profile lacks.
sim::MachineConfig machine_config(const Json& spec);

}  // namespace mqlab::workloads
