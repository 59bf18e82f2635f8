// The workloads of quiesce-rt: what their claims rest on, through the door that users come in by.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "platform/cost.h"
#include "workloads/workload.h"

using namespace mqlab;
using workloads::Json;
using workloads::run_workload;

namespace {

/// Costs of the size that x86-64 servers have; which lock loses must not hang on their last digit.
Json costs() {
  Json values = Json::object();
  for (const auto& info : platform::kCostInfo) values[std::string(info.name)] = 0;
  values.update({{"atomic_local", 5},
                 {"cacheline_transfer", 60},
                 {"lock_uncontended", 20},
                 {"spin_handover", 100},
                 {"rt_mutex_slow_lock", 500},
                 {"rt_mutex_slow_unlock", 500},
                 {"context_switch", 1500},
                 {"idle_exit", 1000},
                 {"wake_up", 1000},
                 {"interrupt", 1500},
                 {"io_submit", 1000},
                 {"io_complete", 300},
                 {"run_hw_queue", 60},
                 {"quiesce_check", 20},
                 {"queue_work", 300},
                 {"scsi_completion", 1500},
                 {"scsi_dispatch", 1500},
                 {"scsi_device_io", 6400}});
  return values;
}

Json load(const Json& policies, const Json& params = Json::object(), unsigned seed = 1) {
  Json all = {{"ios", 3000}};
  all.update(params);
  return run_workload("quiesce_rt", {{"target", "sim"},
                                     {"seed", seed},
                                     {"params", all},
                                     {"policies", policies},
                                     {"profile", {{"name", "test"}, {"values", costs()}}}});
}

double mb_s(const Json& result) { return result.at("samples").at("throughput_mb_s").at(0).get<double>(); }

double mean_in_d(const Json& result) {
  const Json& samples = result.at("samples").at("irq_threads_in_d");
  double sum = 0;
  for (const Json& sample : samples) sum += sample.get<double>();
  return sum / static_cast<double>(samples.size());
}

Json race(const Json& policies, Json params, unsigned seed = 1) {
  return run_workload("quiesce_race",
                      {{"target", "sim"}, {"seed", seed}, {"params", std::move(params)}, {"policies", policies}});
}

std::uint64_t violations(const Json& result) {
  return result.at("samples").at("violations").at(0).get<std::uint64_t>();
}

}  // namespace

TEST_CASE("the sleeping lock piles irq threads up and costs most of the throughput; the raw spinlock does not") {
  const Json before = load({{"quiesce_guard", "spinlock"}});
  const Json after = load({{"quiesce_guard", "raw_spinlock"}});
  CHECK(mb_s(after) > 3 * mb_s(before));
  CHECK(mean_in_d(before) > 5);
  CHECK(mean_in_d(after) == 0);
}

TEST_CASE("on a normal kernel the same lock spins, and no irq thread is in D") {
  const Json normal = load({{"kernel", "normal"}, {"quiesce_guard", "spinlock"}});
  CHECK(mb_s(normal) > 3 * mb_s(load({{"quiesce_guard", "spinlock"}})));
  CHECK(mean_in_d(normal) == 0);
  CHECK(normal.at("counters").at("lock_spins") > 0);
}

TEST_CASE("what the lock costs hangs on hardware queues that have nothing to do") {
  const Json none = load({{"quiesce_guard", "spinlock"}}, {{"hw_queues", 8}});
  const Json many = load({{"quiesce_guard", "spinlock"}}, {{"hw_queues", 32}, {"cpus", 32}});
  CHECK(mb_s(none) > 600);
  CHECK(mb_s(many) < mb_s(load({{"quiesce_guard", "spinlock"}})));
}

TEST_CASE("without refused budgets no completion runs a queue, and no lock is taken") {
  const Json roomy = load({{"quiesce_guard", "spinlock"}}, {{"queue_depth", 512}});
  CHECK(roomy.at("counters").at("budget_refused") == 0);
  CHECK(roomy.at("counters").at("lock_acquired") == 0);
  CHECK(mb_s(roomy) > 600);
}

TEST_CASE("a pile-up outlives the burst that began it, and without a burst a short run does not see one") {
  const Json longer = load({{"quiesce_guard", "spinlock"}}, {{"ios", 8000}});
  const Json& samples = longer.at("samples").at("irq_threads_in_d");
  CHECK(std::ranges::all_of(samples, [](const Json& sample) { return sample > 2; }));
  CHECK(mean_in_d(load({{"quiesce_guard", "spinlock"}}, {{"burst_ms", 0}})) < 1);
}

TEST_CASE("one seed gives the same bytes, another one others") {
  const Json policies = {{"quiesce_guard", "spinlock"}};
  CHECK(load(policies).dump() == load(policies).dump());
  CHECK(load(policies).dump() != load(policies, Json::object(), 2).dump());
}

TEST_CASE("locks, the atomic depth with its barrier and paired barriers lose no queue run in any schedule") {
  for (const char* guard : {"spinlock", "raw_spinlock", "atomic_depth", "barriers"})
    for (const char* memory : {"x86", "weak"})
      for (const char* kernel : {"normal", "rt"}) {
        INFO(guard, " ", memory, " ", kernel);
        const Json result =
            race({{"quiesce_guard", guard}, {"kernel", kernel}}, {{"memory", memory}, {"schedules", 3000}});
        CHECK(violations(result) == 0);
      }
}

TEST_CASE("nothing, an atomic depth alone, and one forgotten barrier lose queue runs, and the seed replays them") {
  const auto loses = [](const Json& policies, Json params) {
    const Json found = race(policies, params);
    CHECK(violations(found) > 0);
    const auto note = found.at("notes").at(0).get<std::string>();
    CHECK(note.find("lost queue run") != std::string::npos);
    const std::string key = "params.only = ";
    params["only"] = std::stoull(note.substr(note.find(key) + key.size()));
    CHECK(violations(race(policies, params)) == 1);
  };
  for (const char* memory : {"x86", "weak"}) {
    loses({{"quiesce_guard", "none"}}, {{"memory", memory}});
    loses({{"quiesce_guard", "atomic_depth_alone"}}, {{"memory", memory}});
    loses({{"quiesce_guard", "barriers"}}, {{"memory", memory}, {"unpaired", "dispatch_list"}});
  }
  loses({{"quiesce_guard", "barriers"}}, {{"memory", "weak"}, {"unpaired", "software_queue"}});
}

TEST_CASE(
    "on x86 only a plain store can pass: software queues are marked by a locked operation, rt_mutexes released by "
    "one") {
  CHECK(violations(race({{"quiesce_guard", "none"}}, {{"add", "software_queue"}, {"schedules", 3000}})) == 0);
  CHECK(violations(race({{"quiesce_guard", "none"}, {"kernel", "rt"}}, {{"schedules", 3000}})) == 0);
  CHECK(violations(race({{"quiesce_guard", "none"}}, {{"add", "dispatch_list"}, {"schedules", 3000}})) > 0);
}

TEST_CASE("a freeze starts as late with the asynchronous run as without: its caller looks at every queue either way") {
  for (const char* how : {"sync", "async"}) {
    const Json result = load({{"quiesce_guard", "raw_spinlock"}, {"freeze_run", how}}, {{"freezes", 4}});
    const Json& starts = result.at("samples").at("freeze_start_ms");
    CHECK(starts.size() == 4);
    CHECK(std::ranges::all_of(starts, [](const Json& ms) { return ms > 0 && ms < 0.2; }));
  }
}

TEST_CASE("a profile without a cost is refused by the cost's name") {
  Json values = costs();
  values.erase("wake_up");
  try {
    run_workload("quiesce_rt", {{"target", "sim"}, {"profile", {{"name", "test"}, {"values", values}}}});
    FAIL("not refused");
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kUsage);
    CHECK(std::string(error.what()).find("wake_up") != std::string::npos);
  }
}
