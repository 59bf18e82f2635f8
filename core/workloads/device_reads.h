// What the workloads that read real devices have in common: parameters of a read job, and samples of its outcome.
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <vector>

#include "io/read_job.h"
#include "workloads/workload.h"

namespace mqlab::workloads {

// Shape and seed of the job out of a complete spec with the parameters depth, batch and block_bytes.
io::ReadJob read_job_of(const Json& spec);

// Throughput, elapsed time and the quantiles of latency.
Json read_samples(const io::ReadOutcome& outcome);

// Counters: the operations of the measured window, and how many batches they were submitted in.
Json read_counters(const io::ReadOutcome& outcome);

// The parameters that read_job_of() takes, with their ranges.
std::vector<Param> read_params();

}  // namespace mqlab::workloads
