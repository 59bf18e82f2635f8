// The built-in workloads, each defined in a file of its own. registry.cc lists them.
#pragma once

#include "workloads/workload.h"

namespace mqlab::workloads {

Workload random_draws_workload();
Workload quiesce_rt_workload();

}  // namespace mqlab::workloads
