// The workloads about devices' lives: repeatable to the byte, moved by HZ as the kernel is, and able to report a fault.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "platform/cost.h"
#include "workloads/workload.h"

using namespace mqlab;
using workloads::Json;

namespace {

/// Every cost at 1 us: structure alone decides.
Json flat_profile(const std::string& name) {
  Json values = Json::object();
  for (const auto& info : platform::kCostInfo) values[std::string(info.name)] = info.name == "cost_spread" ? 0 : 1000;
  return {{"name", name}, {"values", values}};
}

Json spec(Json params, Json policies, std::uint64_t seed = 1, const std::string& profile = "guest") {
  return {{"target", "sim"},
          {"seed", seed},
          {"params", std::move(params)},
          {"policies", std::move(policies)},
          {"profile", flat_profile(profile)}};
}

struct Range {
  double least, most;
};

Range del_dev_ms(unsigned hz, const std::string& srcu) {
  const Json result = workloads::run_workload(
      "ublk_delete",
      spec({{"hz", hz}, {"cpus", 2}, {"devices", 50}, {"threads", 1}, {"started", 0}}, {{"tags_srcu", srcu}}));
  const auto values = result.at("samples").at("del_dev_ms").get<std::vector<double>>();
  const auto [least, most] = std::minmax_element(values.begin() + 1, values.end());  // the first starts within a tick
  return {*least, *most};
}

}  // namespace

TEST_CASE("the same seed gives the same bytes, from any thread count") {
  for (const char* name :
       {"ublk_delete", "null_blk_destroy", "nvme_disconnect", "life_stress", "tags_iterator_delay"}) {
    Json params = Json::object();
    if (std::string(name) == "ublk_delete") params = {{"devices", 40}, {"threads", 16}};
    if (std::string(name) == "null_blk_destroy") params = {{"devices", 20}, {"threads", 4}};
    const auto once = [&] {
      return workloads::run_workload(name, spec(params, Json::object(), 7, "published")).dump();
    };
    CHECK(once() == once());
  }
}

TEST_CASE(
    "DEL_DEV waits four jiffies at any HZ, one more for each timer seen too early, and none with one SRCU for all") {
  for (const unsigned hz : {100U, 250U, 1000U}) {
    const double jiffy_ms = 1000.0 / hz;
    const Range own = del_dev_ms(hz, "per_set");
    CHECK(own.least >= 3.9 * jiffy_ms);
    CHECK(own.least <= 4.1 * jiffy_ms);
    CHECK(own.most <= 6.1 * jiffy_ms);  // a grace period has two timers
    CHECK(del_dev_ms(hz, "global").most < 0.5);
  }
}

TEST_CASE("the stress reports what the removed protection lets through, and nothing with any real one") {
  const auto reports = [](const Json& policies) {
    unsigned found = 0;
    for (std::uint64_t seed = 1; seed <= 12; ++seed)
      found += workloads::run_workload("life_stress", spec({{"steps", 60}}, policies, seed, "published"))
                   .at("samples")
                   .at("reports")
                   .at(0)
                   .get<unsigned>();
    return found;
  };
  CHECK(reports({{"tags_srcu", "unprotected"}}) > 0);
  CHECK(reports({{"elv_flag_lock", "none"}}) > 0);
  for (const char* srcu : {"per_set", "global"})
    for (const char* lock : {"write", "read"}) CHECK(reports({{"tags_srcu", srcu}, {"elv_flag_lock", lock}}) == 0);
}

TEST_CASE("memory and work grow with the devices, not faster") {
  const auto points = [](unsigned devices) {
    return workloads::run_workload("ublk_delete", spec({{"devices", devices}, {"threads", 16}}, Json::object()))
        .at("counters")
        .at("scheduling_points")
        .get<double>();
  };
  CHECK(points(800) / points(200) < 4.6);
}
