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

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double del_dev_ms(unsigned hz, const std::string& srcu) {
  const Json result = workloads::run_workload(
      "ublk_delete",
      spec({{"hz", hz}, {"cpus", 2}, {"devices", 50}, {"threads", 1}, {"started", 0}}, {{"tags_srcu", srcu}}));
  return median(result.at("samples").at("del_dev_ms").get<std::vector<double>>());
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

TEST_CASE("DEL_DEV waits four jiffies at any HZ, and none with one SRCU instance for all sets") {
  for (const unsigned hz : {100U, 250U, 1000U}) {
    const double jiffy_ms = 1000.0 / hz;
    CHECK(del_dev_ms(hz, "per_set") >= 3.9 * jiffy_ms);
    CHECK(del_dev_ms(hz, "per_set") <= 4.1 * jiffy_ms);
    CHECK(del_dev_ms(hz, "global") < 0.5);
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
