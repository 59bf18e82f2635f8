// quiesce_race: schedules in which a request is added while the queue is being unquiesced, on CPUs with store buffers.
//
// Each schedule is a machine of its own, with a seed of its own: some CPUs add a request each, by one of the engine's
// ways, and run its hardware queue, while another CPU ends a quiesce. When all is quiet, a
// request that waits although the queue is not quiesced is a lost queue run. Sample `violations` is the
// number of schedules that end so; a note gives the first one's seed, and param `only` with that seed runs nothing
// else, which replays it.
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "blk/call_sites.h"
#include "blk/run_queue.h"
#include "platform/sim/store_buffer.h"
#include "workloads/builtin.h"
#include "workloads/quiesce_policies.h"

namespace mqlab::workloads {

namespace {

using P = sim::StoreBufferPlatform;
using Request = blk::QueuedRequest<P>;

constexpr unsigned kHwQueues = 2;
constexpr std::uint64_t kLongestDelayNs = 400;

/// A driver that takes whatever it is given.
class Sink {
 public:
  bool get_budget(blk::HwQueue<P>&) { return true; }
  void put_budget(blk::HwQueue<P>&) {}
  bool queue_rq(blk::HwQueue<P>&, Request&) { return true; }
};

using Queue = blk::RunQueue<P, Sink>;

struct Scene {
  blk::QuiesceConfig quiesce;
  sim::MemoryModel memory;
  std::string add;  // how requests are added
  unsigned submitters;
};

class Schedule {
 public:
  Schedule(const Scene& scene, sim::StoreBuffers& buffers)
      : scene_(scene),
        buffers_(buffers),
        kblockd_(1),
        queue_(kblockd_, sink_, kHwQueues, scene.quiesce),
        requests_(scene.submitters) {}

  /// The root task, on CPU 0.
  void play() {
    // Once or twice: quiescing nests. A quiesce is followed by a grace period, which makes all stores visible; so
    // neither its beginning nor a second quiesce after this one can be part of the race with its end.
    const bool nested = P::random_below(2) == 0;
    queue_.quiesce();
    if (nested) queue_.quiesce();
    buffers_.drain_all();
    std::vector<P::thread> tasks;
    for (unsigned i = 0; i < scene_.submitters; ++i)
      tasks.push_back(
          P::spawn({.name = "submitter", .cpu = static_cast<int>(i + 1)}, [this, i] { submit(requests_[i]); }));
    pause();
    queue_.unquiesce();
    if (nested) queue_.unquiesce();
    for (const auto task : tasks) P::join(task);
    // Long enough for every run that is on its way, delayed ones too.
    P::sleep_ns(20'000'000);
    buffers_.drain_all();
    lost_ = queue_.find_lost();
  }

  const std::optional<std::string>& lost() const { return lost_; }

 private:
  static void pause() { P::sleep_ns(P::random_below(kLongestDelayNs)); }

  void submit(Request& request) {
    pause();
    request.cpu = P::this_cpu();
    request.hw_queue = &queue_.hw_queue(request.cpu % kHwQueues);
    const bool bypass = scene_.add == "dispatch_list" || (scene_.add == "any" && P::random_below(2) == 0);
    if (bypass)
      queue_.bypass_insert(request);
    else
      queue_.insert(request);
    queue_.run_hw_queue(*request.hw_queue, false);
  }

  Scene scene_;
  sim::StoreBuffers& buffers_;
  Sink sink_;
  blk::Kblockd<P> kblockd_;
  Queue queue_;
  std::vector<Request> requests_;
  std::optional<std::string> lost_;
};

std::optional<std::string> play(const Scene& scene, std::uint64_t seed) {
  sim::MachineConfig config;
  config.cpus = scene.submitters + 1;
  config.seed = seed;
  sim::Machine machine(config);
  sim::StoreBuffers buffers(scene.memory, config.cpus);
  std::unique_ptr<Schedule> schedule;  // outlives the machine's tasks and not the machine
  machine.run([&] {
    schedule = std::make_unique<Schedule>(scene, buffers);
    schedule->play();
  });
  return schedule->lost();
}

Scene scene_of(const Json& spec) {
  constexpr std::array kUnpaired{std::pair{"none", blk::AddSite::kCount},
                                 std::pair{"software_queue", blk::AddSite::kInsertToSoftwareQueue},
                                 std::pair{"dispatch_list", blk::AddSite::kBypassInsert}};
  const Json& params = spec.at("params");
  Scene scene{.quiesce = quiesce_config(spec.at("policies")),
              .memory = params.at("memory") == "x86" ? sim::MemoryModel::kX86 : sim::MemoryModel::kWeak,
              .add = params.at("add").get<std::string>(),
              .submitters = params.at("submitters").get<unsigned>()};
  for (const auto& [name, site] : kUnpaired)
    if (params.at("unpaired") == name) scene.quiesce.unpaired = site;
  return scene;
}

Json run(const Json& spec) {
  const Scene scene = scene_of(spec);
  const auto schedules = spec.at("params").at("schedules").get<std::uint64_t>();
  const auto only = spec.at("params").at("only").get<std::uint64_t>();
  const std::uint64_t first = only > 0 ? only : spec.at("seed").get<std::uint64_t>() * 1'000'000;
  std::uint64_t violations = 0;
  Json notes = Json::array();
  for (std::uint64_t i = 0; i < (only > 0 ? 1 : schedules); ++i) {
    throw_if_cancelled();
    const auto lost = play(scene, first + i);
    if (!lost) continue;
    if (++violations == 1) {
      const std::string seed = std::to_string(first + i);
      notes.push_back(*lost + " (schedule " + seed + "; replay it with params.only = " + seed + ")");
    }
  }
  return {{"samples", {{"violations", {violations}}, {"barrier_call_sites", {blk::kAddingCallSites.size()}}}},
          {"counters", {{"schedules", only > 0 ? 1 : schedules}, {"queue_run_calls", blk::kQueueRunCalls}}},
          {"notes", std::move(notes)}};
}

}  // namespace

Workload quiesce_race_workload() {
  return {.name = "quiesce_race",
          .help = "Random schedules of an addition against an unquiesce, with store buffers; counts lost queue runs.",
          .targets = {"sim"},
          .run = run,
          .defaults = {{"schedules", 2000},
                       {"submitters", 2},
                       {"only", 0},
                       {"memory", "x86"},
                       {"add", "any"},
                       {"unpaired", "none"}},
          .params = {{.name = "schedules", .min = 1, .max = 1e7},
                     {.name = "submitters", .min = 1, .max = 16},
                     {.name = "only", .min = 0, .max = 1e18},
                     {.name = "memory", .choices = {"x86", "weak"}},
                     {.name = "add", .choices = {"any", "software_queue", "dispatch_list"}},
                     {.name = "unpaired", .choices = {"none", "software_queue", "dispatch_list"}}},
          .policies = {{.name = "kernel", .choices = {"normal", "rt"}},
                       {.name = "quiesce_guard", .choices = quiesce_guards()}}};
}

}  // namespace mqlab::workloads
