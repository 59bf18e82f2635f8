// Workload `scsi_irq_load`: random reads of a SCSI disk by several threads, while the states and stacks of the disk's
// irq threads are looked at.
//
// It shows where threads that complete commands wait, and for whose lock. More reads in flight than `queue_depth` make
// the kernel run all hardware queues at a completion. The thread that looks stands above the readers and below the irq
// threads: above those it would stop a lock's holder and see those waiting that it made wait.
//
// Thread safety: one run at a time, since it changes settings of the disk. They are given back, also after a failure.
#include <sched.h>
#include <sys/utsname.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "devices/irq_threads.h"
#include "devices/kernel_setting.h"
#include "devices/scsi_disk.h"
#include "workloads/builtin.h"
#include "workloads/device_reads.h"
#include "workloads/irq_thread_log.h"

namespace mqlab::workloads {
namespace {

using devices::KernelSetting;
using std::chrono::milliseconds;

// Looks at the threads from construction to stop().
class Observer {
 public:
  Observer(const devices::IrqThreads& threads, milliseconds pause)
      : threads_(threads), pause_(pause), thread_([this](const std::stop_token& stop) { observe(stop); }) {}

  const IrqThreadLog& stop() {
    thread_.request_stop();
    thread_.join();
    return log_;
  }

 private:
  void observe(const std::stop_token& stop) {
    const sched_param lowest{.sched_priority = sched_get_priority_min(SCHED_FIFO)};
    sched_setscheduler(0, SCHED_FIFO, &lowest);  // where that is refused it looks less often
    std::unique_lock guard(mutex_);
    while (!stopped_.wait_for(guard, stop, pause_, [&stop] { return stop.stop_requested(); })) {
      log_.add(threads_.look());
    }
  }

  const devices::IrqThreads& threads_;
  milliseconds pause_;
  IrqThreadLog log_;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;  // the last: it uses the others
};

bool is_preempt_rt() {
  utsname name{};
  return uname(&name) == 0 && std::string(name.version).find("PREEMPT_RT") != std::string::npos;
}

io::ReadJob job_of(const Json& spec, const devices::ScsiDisk& disk) {
  const Json& params = spec.at("params");
  io::ReadJob job = read_job_of(spec);
  job.paths = {"/dev/" + disk.name};
  job.threads = params.at("threads").get<unsigned>();
  job.duration = milliseconds(params.at("duration_ms").get<std::int64_t>());
  job.warmup_reads = job.shape.depth;
  job.pinned = true;
  job.marks_window = true;
  job.shape.stall_limit = milliseconds(params.at("limit_ms").get<std::int64_t>());
  return job;
}

void add_all(Json& notes, const Json& more) {
  for (const Json& note : more) notes.push_back(note);
}

Json run(const Json& spec) {
  const Json& params = spec.at("params");
  const devices::ScsiDisk disk = devices::find_scsi_disk(params.at("driver").get<std::string>());
  const KernelSetting scheduler(disk.queue_path + "/scheduler", "none");
  const KernelSetting add_random(disk.queue_path + "/add_random", params.at("add_random").get<bool>() ? "1" : "0");
  const KernelSetting queue_depth(disk.device_path + "/queue_depth",
                                  std::to_string(params.at("queue_depth").get<unsigned>()));
  const devices::IrqThreads threads(disk.irqs);
  std::unique_ptr<Observer> observer;
  if (threads.size() > 0) {
    observer = std::make_unique<Observer>(threads, milliseconds(params.at("sample_every_ms").get<std::int64_t>()));
  }
  const io::ReadOutcome outcome = run_read_job(job_of(spec, disk));

  Json samples = read_samples(outcome);
  Json counters = read_counters(outcome);
  Json notes = Json::array({outcome.ring, "disk " + disk.name + ", queue depth " + queue_depth.value()});
  counters["preempt_rt"] = is_preempt_rt() ? 1 : 0;
  counters["irq_threads"] = threads.size();
  if (!observer) {
    notes.push_back(
        "the disk's interrupts have no threads here (no PREEMPT_RT, no threadirqs, or no interrupts of its "
        "own): no states were looked at");
    return {{"samples", samples}, {"counters", counters}, {"notes", notes}};
  }
  const IrqThreadLog& log = observer->stop();
  samples["irq_threads_in_d"] = log.in_d();
  counters.update(log.counters());
  add_all(notes, log.commonest_waits());
  if (!threads.tells_stacks()) notes.push_back("this kernel tells no stacks (CONFIG_STACKTRACE): no wait sites");
  return {{"samples", samples}, {"counters", counters}, {"notes", notes}};
}

}  // namespace

Workload scsi_irq_load_workload() {
  Workload workload{.name = "scsi_irq_load",
                    .help =
                        "Random reads of the SCSI disk of params.driver by several threads, while the states and "
                        "stacks of its irq threads are looked at.",
                    .targets = {"device"},
                    .run = run,
                    .defaults = {{"driver", "virtio_scsi"},
                                 {"threads", 8},
                                 {"depth", 32},
                                 {"batch", 32},
                                 {"block_bytes", 4096},
                                 {"queue_depth", 64},
                                 {"add_random", false},
                                 {"duration_ms", 3000},
                                 {"sample_every_ms", 30},
                                 {"limit_ms", 60000}},
                    .params = read_params()};
  const std::vector<Param> own = {{.name = "driver"},
                                  {.name = "threads", .min = 1, .max = 1024},
                                  {.name = "queue_depth", .min = 1, .max = 4096},
                                  {.name = "add_random"},
                                  {.name = "duration_ms", .min = 1, .max = 3600000},
                                  {.name = "sample_every_ms", .min = 1, .max = 60000},
                                  {.name = "limit_ms", .min = 1, .max = 3600000}};
  workload.params.insert(workload.params.end(), own.begin(), own.end());
  return workload;
}

}  // namespace mqlab::workloads
