// quiesce_rt: a SCSI device under load from all CPUs, and what the guard of its queue's quiesce state costs the irq
// threads.
//
// One device with several hardware queues and as many MSI-X vectors. Jobs, one a CPU, keep a number of reads in flight;
// the device takes fewer at once than they want, so completions run all hardware queues, and each run that finds
// nothing to do takes the guard's lock. Irq threads are SCHED_FIFO 50. On the normal kernel interrupts are threaded as
// well, so that nothing but the lock differs.
//
// A sampler reads the irq threads' states as ps would: one that sleeps or spins in an rt_mutex shows as D.
#include <algorithm>
#include <memory>
#include <vector>

#include "base/error.h"
#include "drivers/scsi.h"
#include "platform/sim/platform.h"
#include "workloads/builtin.h"
#include "workloads/quiesce_policies.h"
#include "workloads/sim_spec.h"

namespace mqlab::workloads {

namespace {

using P = sim::Platform;
using platform::Cost;
using Request = blk::QueuedRequest<P>;
using Device = drivers::ScsiDevice<P>;

constexpr int kIrqThreadPriority = sim::fifo_priority(50);
constexpr int kKblockdPriority = 1;  // above ordinary tasks, as a high-priority workqueue
constexpr double kWarmUpShare = 0.1;

struct Settings {
  unsigned cpus, jobs, in_flight;
  std::uint64_t block_size_bytes, duration_ns, sample_every_ns;
  unsigned freezes;
  blk::FreezeRun freeze_run;
  drivers::ScsiConfig scsi;
  blk::QuiesceConfig quiesce;
};

Settings settings_of(const Json& spec) {
  const Json& params = spec.at("params");
  const Json& policies = spec.at("policies");
  const auto number = [&](const char* name) { return params.at(name).get<unsigned>(); };
  Settings s{};
  s.cpus = number("cpus");
  s.jobs = number("jobs");
  s.in_flight = number("in_flight");
  s.block_size_bytes = number("block_size_bytes");
  s.duration_ns = std::uint64_t{number("duration_ms")} * 1'000'000;
  s.sample_every_ns = std::uint64_t{number("sample_every_us")} * 1'000;
  s.freezes = number("freezes");
  s.freeze_run = policies.at("freeze_run") == "async" ? blk::FreezeRun::kAsync : blk::FreezeRun::kSync;
  s.scsi.queue_depth = number("queue_depth");
  s.scsi.hw_queues = number("hw_queues");
  s.scsi.budget =
      policies.at("queues") == "per_interrupt" ? drivers::BudgetScope::kHwQueue : drivers::BudgetScope::kDevice;
  s.scsi.controller.vectors = number("irq_threads");
  s.scsi.controller.irq_thread_priority = kIrqThreadPriority;
  s.scsi.controller.vector_choice =
      policies.at("vectors") == "round_robin" ? drivers::VectorChoice::kRoundRobin : drivers::VectorChoice::kHwQueue;
  s.quiesce = quiesce_config(policies);
  return s;
}

/// A job: reads in flight, each submitted again when it is done.
class Job {
 public:
  Job(Device& device, unsigned index, unsigned in_flight) : device_(device), requests_(in_flight) {
    for (Request& request : requests_) {
      request.owner = index;
      free_.push_back(&request);
    }
  }

  void run() {
    while (!stopped_) {
      idle_.wait([this] { return stopped_ || !free_.empty(); });
      while (!stopped_ && !free_.empty()) {
        Request& request = *free_.back();
        free_.pop_back();
        P::charge(Cost::kIoSubmit);
        P::charge(Cost::kTagAllocSingle);
        P::charge(Cost::kRequestInit);
        device_.queue().submit(request);
      }
    }
  }
  void done(Request& request) {
    free_.push_back(&request);
    idle_.wake_one();
  }
  void stop() {
    stopped_ = true;
    idle_.wake_all();
  }

 private:
  Device& device_;
  std::vector<Request> requests_;
  std::vector<Request*> free_;
  P::wait_queue idle_{"io"};
  bool stopped_ = false;
};

class Run {
 public:
  explicit Run(const Settings& settings)
      : settings_(settings),
        kblockd_(kKblockdPriority),
        device_(kblockd_, settings.scsi, settings.quiesce,
                [this](Request& request) { jobs_[request.owner]->done(request); }) {
    for (unsigned i = 0; i < settings.jobs; ++i) jobs_.push_back(std::make_unique<Job>(device_, i, settings.in_flight));
  }

  /// The root task.
  void measure() {
    std::vector<P::thread> tasks;
    for (unsigned i = 0; i < settings_.jobs; ++i)
      tasks.push_back(
          P::spawn({.name = "job", .cpu = static_cast<int>(i % settings_.cpus)}, [this, i] { jobs_[i]->run(); }));
    P::sleep_ns(static_cast<std::uint64_t>(static_cast<double>(settings_.duration_ns) * kWarmUpShare));
    const std::uint64_t start_ns = P::now_ns();
    const std::uint64_t completed = device_.completed();
    observe(start_ns + settings_.duration_ns);
    window_ns_ = P::now_ns() - start_ns;
    completed_ = device_.completed() - completed;
    for (const auto& job : jobs_) job->stop();
    for (const auto task : tasks) P::join(task);
  }

  Json result() const {
    const double mb_s =
        static_cast<double>(completed_ * settings_.block_size_bytes) * 1e3 / static_cast<double>(window_ns_);
    Json samples = {{"throughput_mb_s", {mb_s}}, {"irq_threads_in_d", in_d_}};
    if (!freeze_start_us_.empty()) samples["freeze_start_us"] = freeze_start_us_;
    return {{"samples", std::move(samples)}, {"counters", counters()}, {"notes", Json::array()}};
  }

 private:
  void observe(std::uint64_t end_ns) {
    const std::uint64_t freeze_every_ns =
        settings_.freezes > 0 ? settings_.duration_ns / settings_.freezes : sim::kNever;
    std::uint64_t next_freeze_ns = settings_.freezes > 0 ? P::now_ns() + freeze_every_ns / 2 : sim::kNever;
    while (P::now_ns() < end_ns) {
      P::sleep_ns(settings_.sample_every_ns);
      in_d_.push_back(count_in_d());
      if (P::now_ns() < next_freeze_ns) continue;
      next_freeze_ns += freeze_every_ns;
      freeze_start();
    }
  }
  unsigned count_in_d() const {
    const auto& threads = device_.controller().irq_threads();
    return static_cast<unsigned>(
        std::ranges::count_if(threads, [](const sim::Task* t) { return t->waits_for_rt_mutex(); }));
  }
  void freeze_start() {
    const std::uint64_t start_ns = P::now_ns();
    device_.queue().run_at_freeze(settings_.freeze_run);
    freeze_start_us_.push_back(static_cast<double>(P::now_ns() - start_ns) / 1e3);
  }

  Json counters() const {
    auto& queue = const_cast<Device&>(device_).queue();
    const sim::LockStats& lock = queue.quiesce_state().lock_stats();
    const blk::RunCounters& runs = queue.counters();
    return {{"ios", device_.completed()},
            {"all_queue_runs", device_.all_queue_runs()},
            {"hw_queue_runs", runs.runs},
            {"second_looks", runs.second_looks},
            {"delegated_runs", runs.delegated},
            {"budget_refused", runs.budget_refused},
            {"lock_acquired", lock.acquired},
            {"lock_contended", lock.contended},
            {"lock_sleeps", lock.sleeps},
            {"lock_spins", lock.spins},
            {"lock_waited_ns", lock.waited_ns},
            {"lock_spun_ns", lock.spun_ns},
            {"irq_threads_in_d_most", in_d_.empty() ? 0U : *std::ranges::max_element(in_d_)}};
  }

  Settings settings_;
  blk::Kblockd<P> kblockd_;
  Device device_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<unsigned> in_d_;
  std::vector<double> freeze_start_us_;
  std::uint64_t window_ns_ = 0;
  std::uint64_t completed_ = 0;
};

Json run(const Json& spec) {
  const Settings settings = settings_of(spec);
  sim::Machine machine(machine_config(spec));
  std::unique_ptr<Run> measured;  // outlives the machine's tasks and not the machine
  machine.run([&] {
    measured = std::make_unique<Run>(settings);
    measured->measure();
  });
  Json result = measured->result();
  result["counters"]["scheduling_points"] = machine.scheduling_points();
  result["counters"]["context_switches"] = machine.context_switches();
  return result;
}

}  // namespace

Workload quiesce_rt_workload() {
  return {.name = "quiesce_rt",
          .help = "A SCSI device under more load than its queue depth; the guard of its quiesce state as policy.",
          .targets = {"sim"},
          .run = run,
          .defaults = {{"hz", 1000},
                       {"cpus", 8},
                       {"irq_threads", 8},
                       {"hw_queues", 8},
                       {"jobs", 8},
                       {"in_flight", 32},
                       {"queue_depth", 128},
                       {"block_size_bytes", 4096},
                       {"duration_ms", 100},
                       {"sample_every_us", 1000},
                       {"freezes", 0}},
          .params = {{.name = "hz", .min = 100, .max = 1000},
                     {.name = "cpus", .min = 1, .max = 64},
                     {.name = "irq_threads", .min = 1, .max = 64},
                     {.name = "hw_queues", .min = 1, .max = 64},
                     {.name = "jobs", .min = 1, .max = 256},
                     {.name = "in_flight", .min = 1, .max = 4096},
                     {.name = "queue_depth", .min = 1, .max = 10240},
                     {.name = "block_size_bytes", .min = 512, .max = 1048576},
                     {.name = "duration_ms", .min = 1, .max = 10000},
                     {.name = "sample_every_us", .min = 10, .max = 1000000},
                     {.name = "freezes", .min = 0, .max = 10000}},
          .policies = {{.name = "kernel", .choices = {"rt", "normal"}},
                       {.name = "quiesce_guard", .choices = quiesce_guards()},
                       {.name = "top_waiter", .choices = {"spins", "sleeps"}},
                       {.name = "freeze_run", .choices = {"sync", "async"}},
                       {.name = "queues", .choices = {"shared", "per_interrupt"}},
                       {.name = "vectors", .choices = {"hw_queue", "round_robin"}}}};
}

}  // namespace mqlab::workloads
