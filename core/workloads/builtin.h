// The built-in workloads, each defined in a file of its own. registry.cc lists them.
#pragma once

#include "workloads/workload.h"

namespace mqlab::workloads {

Workload random_draws_workload();
Workload quiesce_race_workload();
Workload quiesce_rt_workload();
Workload plug_batch_workload();
Workload ublk_delete_workload();
Workload null_blk_destroy_workload();
Workload nvme_disconnect_workload();
Workload tags_iterator_delay_workload();
Workload life_stress_workload();
Workload random_reads_workload();
Workload ublk_random_reads_workload();
Workload scsi_irq_load_workload();

// On real devices.
Workload null_blk_lifecycle_workload();
Workload nvmet_disconnect_workload();
Workload device_stress_workload();
Workload device_inventory_workload();

}  // namespace mqlab::workloads
