// quiesce_rt: a SCSI device under load from several CPUs, and what the guard of its queue's quiesce state costs the irq
// threads.
//
// One device, more reads in flight than its queue depth, hardware queues one a CPU, and a few MSI-X vectors for busy
// devices whose irq threads (SCHED_FIFO 50) complete commands of all hardware queues. A completion that finds a refused
// budget runs all hardware queues; each run that finds nothing to do, as in the queues of CPUs without a job, takes the
// guard's lock. On the normal kernel interrupts are threaded as well, so that nothing but the lock differs.
//
// With the sleeping lock there are two states: waits that are rare, and a pile-up in which each irq thread sleeps for
// the lock again and again. The pile-up begins by itself after some seconds, or with a burst of completions, and then
// does not end. So that a short run measures the state that a long one is in, the device begins with a burst (param
// burst_ms, in all variants; 0 leaves the beginning to chance).
//
// A sampler reads the irq threads' states as ps would: one that sleeps or spins in an rt_mutex shows as D.
#include <algorithm>
#include <memory>
#include <vector>

#include "base/error.h"
#include "workloads/builtin.h"
#include "workloads/quiesce_policies.h"
#include "workloads/scsi_load.h"
#include "workloads/sim_spec.h"

namespace mqlab::workloads {

namespace {

using P = sim::Platform;

constexpr int kIrqThreadPriority = sim::fifo_priority(50);
constexpr std::uint64_t kBetweenFreezesNs = 5'000'000;
constexpr int kObserverPriority = sim::fifo_priority(99);
constexpr int kKblockdPriority = 1;  // above ordinary tasks, as a high-priority workqueue

struct Settings {
  unsigned cpus, jobs, in_flight, freezes;
  std::uint64_t ios, block_size_bytes, longest_ns, sample_every_ns, burst_ns;
  blk::FreezeRun freeze_run;
  drivers::ScsiConfig scsi;
  blk::QuiesceConfig quiesce;
};

drivers::ScsiConfig scsi_config(const Json& params, const Json& policies) {
  const bool per_interrupt = policies.at("queues") == "per_interrupt";
  drivers::ScsiConfig scsi;
  scsi.queue_depth = params.at("queue_depth").get<unsigned>();
  scsi.hw_queues = params.at(per_interrupt ? "irq_threads" : "hw_queues").get<unsigned>();
  scsi.budget = per_interrupt ? drivers::BudgetScope::kHwQueue : drivers::BudgetScope::kDevice;
  scsi.controller.vectors = params.at("irq_threads").get<unsigned>();
  scsi.controller.irq_thread_priority = kIrqThreadPriority;
  scsi.controller.vector_choice = per_interrupt || policies.at("vectors") == "hw_queue"
                                      ? drivers::VectorChoice::kHwQueue
                                      : drivers::VectorChoice::kBalanced;
  return scsi;
}

Settings settings_of(const Json& spec) {
  const Json& params = spec.at("params");
  const Json& policies = spec.at("policies");
  const auto number = [&](const char* name) { return params.at(name).get<unsigned>(); };
  return {.cpus = number("cpus"),
          .jobs = number("jobs"),
          .in_flight = number("in_flight"),
          .freezes = number("freezes"),
          .ios = number("ios"),
          .block_size_bytes = number("block_size_bytes"),
          .longest_ns = std::uint64_t{number("longest_ms")} * 1'000'000,
          .sample_every_ns = std::uint64_t{number("sample_every_us")} * 1'000,
          .burst_ns = std::uint64_t{number("burst_ms")} * 1'000'000,
          .freeze_run = policies.at("freeze_run") == "async" ? blk::FreezeRun::kAsync : blk::FreezeRun::kSync,
          .scsi = scsi_config(params, policies),
          .quiesce = quiesce_config(policies)};
}

class Run {
 public:
  Run(sim::Machine& machine, const Settings& settings)
      : settings_(settings),
        ticks_(machine),
        kernel_(settings.freezes > 0 ? std::make_unique<blk::Kernel<P>>() : nullptr),
        gate_(kernel_.get()),
        kblockd_(kKblockdPriority),
        device_(kblockd_, settings.scsi, settings.quiesce,
                [this](SimRequest& request) { jobs_[request.owner]->done(request); }) {
    for (unsigned i = 0; i < settings.jobs; ++i)
      jobs_.push_back(std::make_unique<Job>(device_, gate_, i, settings.in_flight));
  }

  /// The root task. It is above all others, so that it ends the run whatever they do.
  void measure() {
    sim::Machine::current().set_priority(sim::Machine::current().current_task(), kObserverPriority);
    for (unsigned i = 0; i < settings_.jobs; ++i)
      P::spawn({.name = "job", .cpu = job_cpu(i), .daemon = true}, [this, i] { jobs_[i]->run(); });
    warm_up();
    if (settings_.freezes > 0)
      P::spawn({.name = "freezer", .cpu = job_cpu(0), .daemon = true}, [this] { freeze_again_and_again(); });
    const std::uint64_t start_ns = P::now_ns();
    const std::uint64_t completed = device_.completed();
    const sim::LockStats lock = device_.queue().quiesce_state().lock_stats();
    const auto done = [&] {
      return settings_.freezes > 0 ? freeze_start_ms_.size() == settings_.freezes
                                   : device_.completed() - completed >= settings_.ios;
    };
    while (!done() && P::now_ns() - start_ns < settings_.longest_ns) sample();
    window_ns_ = P::now_ns() - start_ns;
    completed_ = device_.completed() - completed;
    spins_ = device_.queue().quiesce_state().lock_stats().spins - lock.spins;
    spun_ns_ = device_.queue().quiesce_state().lock_stats().spun_ns - lock.spun_ns;
  }

  bool froze() const { return !freeze_start_ms_.empty(); }

  Json result() {
    const double mb_s =
        static_cast<double>(completed_ * settings_.block_size_bytes) * 1e3 / static_cast<double>(window_ns_);
    const double irq_threads_ns = static_cast<double>(window_ns_) * settings_.scsi.controller.vectors;
    Json samples = {{"throughput_mb_s", {mb_s}},
                    {"irq_threads_in_d", in_d_},
                    {"top_waiter_spins", {spins_}},
                    {"spinning_percent", {100 * static_cast<double>(spun_ns_) / irq_threads_ns}}};
    if (settings_.freezes > 0) samples["freeze_start_ms"] = freeze_start_ms_;
    return {{"samples", std::move(samples)}, {"counters", counters()}, {"notes", Json::array()}};
  }

 private:
  // Next to the irq threads' CPUs, as long as there are others: where a scheduler would put them.
  int job_cpu(unsigned job) const {
    return static_cast<int>((settings_.scsi.controller.vectors + job) % settings_.cpus);
  }

  void warm_up() {
    constexpr std::uint64_t kSettleNs = 2'000'000;
    constexpr unsigned kBurstSpeed = 8;
    device_.controller().set_speed(settings_.burst_ns > 0 ? kBurstSpeed : 1);
    P::sleep_ns(settings_.burst_ns);
    device_.controller().set_speed(1);
    P::sleep_ns(kSettleNs);
  }

  void sample() {
    P::sleep_ns(settings_.sample_every_ns);
    const auto& threads = device_.controller().irq_threads();
    in_d_.push_back(static_cast<unsigned>(
        std::ranges::count_if(threads, [](const sim::Task* thread) { return thread->waits_for_rt_mutex(); })));
  }

  // From the CPU of a job, whose hardware queue has requests that wait.
  void freeze_again_and_again() {
    for (unsigned i = 0; i < settings_.freezes; ++i) {
      P::sleep_ns(kBetweenFreezesNs);
      const std::uint64_t start_ns = P::now_ns();
      gate_.freeze_start();
      device_.queue().run_at_freeze(settings_.freeze_run);
      const std::uint64_t took_ns = P::now_ns() - start_ns;
      gate_.freeze_wait();
      gate_.unfreeze();
      freeze_start_ms_.push_back(static_cast<double>(took_ns) / 1e6);
    }
  }

  Json counters() {
    auto& queue = device_.queue();
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
  Ticks ticks_;
  std::unique_ptr<blk::Kernel<P>> kernel_;
  Gate gate_;
  blk::Kblockd<P> kblockd_;
  SimScsi device_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<unsigned> in_d_;
  std::vector<double> freeze_start_ms_;
  std::uint64_t window_ns_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t spins_ = 0;
  std::uint64_t spun_ns_ = 0;
};

Json run(const Json& spec) {
  const Settings settings = settings_of(spec);
  sim::MachineConfig config = machine_config(spec);
  config.idle_exits = true;  // in a pile-up each wake-up goes to a CPU that has nothing else to do
  sim::Machine machine(config);
  std::unique_ptr<Run> measured;  // outlives the machine's tasks and not the machine
  machine.run([&] {
    measured = std::make_unique<Run>(machine, settings);
    measured->measure();
  });
  if (settings.freezes > 0 && !measured->froze()) {
    throw Error(
        ErrorKind::kTimeout,
        "no freeze came to its end in longest_ms of virtual time: irq threads leave the jobs' CPU no time, or requests "
        "do not drain",
        "give more cpus, fewer irq_threads, or a larger longest_ms");
  }
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
                       {"cpus", 16},
                       {"irq_threads", 8},
                       {"hw_queues", 16},
                       {"jobs", 8},
                       {"in_flight", 64},
                       {"queue_depth", 256},
                       {"block_size_bytes", 4096},
                       {"ios", 6000},
                       {"longest_ms", 1000},
                       {"sample_every_us", 1000},
                       {"burst_ms", 5},
                       {"freezes", 0}},
          .params = {{.name = "hz", .min = 100, .max = 1000},
                     {.name = "cpus", .min = 1, .max = 64},
                     {.name = "irq_threads", .min = 1, .max = 64},
                     {.name = "hw_queues", .min = 1, .max = 64},
                     {.name = "jobs", .min = 1, .max = 256},
                     {.name = "in_flight", .min = 1, .max = 4096},
                     {.name = "queue_depth", .min = 1, .max = 10240},
                     {.name = "block_size_bytes", .min = 512, .max = 1048576},
                     {.name = "ios", .min = 1, .max = 1e8},
                     {.name = "longest_ms", .min = 1, .max = 1000000},
                     {.name = "sample_every_us", .min = 10, .max = 1000000},
                     {.name = "burst_ms", .min = 0, .max = 1000},
                     {.name = "freezes", .min = 0, .max = 1000}},
          .policies = {{.name = "kernel", .choices = {"rt", "normal"}},
                       {.name = "quiesce_guard", .choices = quiesce_guards()},
                       {.name = "top_waiter", .choices = {"spins", "sleeps"}},
                       {.name = "freeze_run", .choices = {"sync", "async"}},
                       {.name = "queues", .choices = {"shared", "per_interrupt"}},
                       {.name = "vectors", .choices = {"balanced", "hw_queue"}}}};
}

}  // namespace mqlab::workloads
