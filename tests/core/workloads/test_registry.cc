#include <doctest/doctest.h>

#include "base/cancel.h"
#include "base/error.h"
#include "workloads/workload.h"

namespace mqlab::workloads {

namespace {

Json echo(const Json& spec) {
  return {{"samples", Json::object()}, {"counters", Json::object()}, {"notes", Json::array({spec})}};
}

Workload echo_workload(std::string name) {
  return {.name = std::move(name),
          .help = "Returns its spec.",
          .targets = {"sim", "native"},
          .run = echo,
          .defaults = {{"devices", 4}, {"share", 0.5}, {"shape", "round"}, {"loud", false}},
          .params = {{.name = "devices", .min = 1, .max = 100},
                     {.name = "share", .min = 0, .max = 1},
                     {.name = "shape", .choices = {"round", "flat"}},
                     {.name = "loud"}},
          .policies = {{.name = "tags_srcu", .choices = {"per_set", "global"}}}};
}

// The message and the remedy of the usage error that the spec is refused with.
std::string refusal(const Json& spec) {
  try {
    complete_spec(echo_workload("refusal"), spec);
  } catch (const Error& error) {
    REQUIRE(error.kind == ErrorKind::kUsage);
    return std::string(error.what()) + "; " + error.remedy;
  }
  return "accepted";
}

}  // namespace

TEST_CASE("an empty spec is completed with every default") {
  const Json spec = complete_spec(echo_workload("defaults"), Json::object());
  CHECK(spec.at("target") == "sim");
  CHECK(spec.at("seed") == 1);
  CHECK(spec.at("params") == echo_workload("defaults").defaults);
  CHECK(spec.at("policies") == Json{{"tags_srcu", "per_set"}});
  CHECK(spec.at("profile").at("values").empty());
}

TEST_CASE("what is given is kept, and 16.0 counts as a whole number") {
  const Json given = {{"target", "native"},
                      {"seed", 7},
                      {"params", {{"devices", 16.0}, {"shape", "flat"}}},
                      {"policies", {{"tags_srcu", "global"}}},
                      {"profile", {{"name", "guest"}, {"values", {{"atomic_local", 1.5}}}}}};
  const Json spec = complete_spec(echo_workload("given"), given);
  CHECK(spec.at("target") == "native");
  CHECK(spec.at("params").at("devices").is_number_integer());
  CHECK(spec.at("params").at("devices") == 16);
  CHECK(spec.at("policies").at("tags_srcu") == "global");
  CHECK(spec.at("profile").at("values").at("atomic_local") == 1.5);
}

TEST_CASE("what makes no sense is refused with the key, the value and what is allowed") {
  CHECK(refusal({{"params", {{"devices", 0}}}}) == "params.devices: 0 is not allowed; give a number from 1 to 100");
  CHECK(refusal({{"params", {{"devices", 1.5}}}}) == "params.devices: 1.5 is not allowed; give a whole number");
  CHECK(refusal({{"params", {{"devices", "many"}}}}) ==
        "params.devices: \"many\" is not allowed; give a number from 1 to 100");
  CHECK(refusal({{"params", {{"loud", 1}}}}) == "params.loud: 1 is not allowed; give true or false");
  CHECK(refusal({{"params", {{"shape", "odd"}}}}) ==
        "params.shape: \"odd\" is not allowed; choose one of: round, flat");
  CHECK(refusal({{"params", {{"device", 1}}}}) ==
        "params: unknown key 'device' (given: 1); known are: devices, share, shape, loud");
  CHECK(refusal({{"policies", {{"tags_srcu", "none"}}}}) ==
        "policies.tags_srcu: \"none\" is not allowed; choose one of: per_set, global");
  CHECK(refusal({{"target", "moon"}}) == "target: \"moon\" is not allowed; choose one of: sim, native");
  CHECK(refusal({{"seed", -1}}) == "seed: -1 is not allowed; give a whole number from 0 to 18446744073709551615");
  CHECK(refusal({{"profile", {{"values", {{"atomic_local", -1}}}}}}) ==
        "profile.values.atomic_local: -1 is not allowed; give a number from 0 to 1000000000000");
  CHECK(refusal({{"profile", {{"values", {{"hope", 1}}}}}})
            .starts_with("profile.values: unknown key 'hope' (given: 1); known are: atomic_local, "));
  CHECK(refusal(Json::array()) == "spec of refusal: [] is no object; give keys and values");
}

TEST_CASE("a registered workload is found, listed and run; its name can be taken once") {
  register_workload(echo_workload("echo"));
  REQUIRE(find_workload("echo") != nullptr);
  CHECK(find_workload("echo")->help == "Returns its spec.");
  const Json result = run_workload("echo", {{"seed", 3}});
  CHECK(result.at("notes").at(0).at("seed") == 3);
  bool listed = false;
  for (const Json& workload : describe_workloads()) listed = listed || workload.at("name") == "echo";
  CHECK(listed);
  CHECK_THROWS_AS(register_workload(echo_workload("echo")), Error);
}

TEST_CASE("a declaration with a hole is refused") {
  Workload no_range = echo_workload("no_range");
  no_range.params.pop_back();
  CHECK_THROWS_AS(register_workload(no_range), Error);
  Workload no_default = echo_workload("no_default");
  no_default.defaults.erase("loud");
  CHECK_THROWS_AS(register_workload(no_default), Error);
}

TEST_CASE("a workload that reads what it does not declare is at fault, not its caller") {
  Workload careless = echo_workload("careless");
  careless.run = [](const Json& spec) { return spec.at("params").at("undeclared"); };
  register_workload(careless);
  try {
    run_workload("careless", Json::object());
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kInternal);
    CHECK(std::string(error.what()).find("workload 'careless' misread its spec") == 0);
  }
}

TEST_CASE("an unknown workload is refused with the names of the known ones") {
  try {
    run_workload("no_such", Json::object());
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kUsage);
    CHECK(error.remedy.find("random_draws") != std::string::npos);
  }
}

TEST_CASE("the same seed gives the same bytes, another seed others") {
  const auto run = [](int seed) { return run_workload("random_draws", {{"seed", seed}}).dump(); };
  CHECK(run(1) == run(1));
  CHECK(run(1) != run(2));
  const Json result = run_workload("random_draws", {{"params", {{"bound", 5}, {"draws", 1000}, {"kept", 3}}}});
  CHECK(result.at("samples").at("draw_count").size() == 3);
  CHECK(result.at("counters").at("draws") == 1000);
  CHECK(result.at("counters").at("smallest") == 0);
  CHECK(result.at("counters").at("largest") == 4);
}

TEST_CASE("a cancelled run ends with Cancelled") {
  const CancelScope scope;
  REQUIRE(request_cancel());
  CHECK_THROWS_AS(run_workload("random_draws", Json::object()), Cancelled);
}

}  // namespace mqlab::workloads
