// Workload `ublk_lifecycle` on real devices: adds ublk devices from several threads, lets them live where
// asked to, and deletes them, each command timed alone.
//
// Samples are whole nanoseconds, in the order of the devices' numbers, so that two runs can be compared value
// by value. Devices that it added are gone when it returns, also when it throws.
//
// Thread safety: runs may overlap; each counts its own devices only.
#pragma once

#include "workloads/workload.h"

namespace mqlab::workloads {

Workload ublk_lifecycle_workload();

}  // namespace mqlab::workloads
