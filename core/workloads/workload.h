// Workloads: the C++ code that does the work of one case and returns samples, found by name.
//
// A spec is
//   {"target": "sim", "seed": 1, "params": {...}, "policies": {...}, "profile": {"name": "...", "values":
//   {...}}}
// where everything but the target may be left out, and a result is
//   {"samples": {"del_dev_ms": [...]}, "counters": {...}, "notes": [...]}.
// One call is one run: a fresh simulation, device, or set of threads. Metric names end in their unit.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace mqlab::workloads {

using Json = nlohmann::json;

// A parameter that a spec may set. Its default is the workload's `defaults` entry of the same name, whose
// JSON type the given value must have; numbers lie in [min, max], texts are one of `choices`, or any
// where there are none.
struct Param {
  std::string name;
  double min = 0;
  double max = 0;
  std::vector<std::string> choices{};
};

// A policy chooses one of several variants of the same code. The first choice is the default.
struct Policy {
  std::string name;
  std::vector<std::string> choices;
};

struct Workload {
  std::string name;
  std::string help;
  std::vector<std::string> targets;  // of "sim", "native", "device"
  Json (*run)(const Json& spec);     // gets a complete, checked spec
  Json defaults = Json::object();    // every parameter with its default
  std::vector<Param> params{};       // the allowed range of each parameter
  std::vector<Policy> policies{};
};

// The registry holds the built-in workloads (the table in registry.cc) and those added here. Thread safe. A
// name that is taken, or a parameter without a default or a range, is an Error of kind kInternal. A
// registered workload stays where it is for the life of the process.
void register_workload(Workload workload);
const Workload* find_workload(std::string_view name);
std::vector<Workload> all_workloads();

// Checks the spec against what the workload declares, fills in the defaults, and runs it on the calling
// thread. Unknown keys and values out of range are an Error of kind kUsage that names the key, what was given
// and what is allowed. Throws Cancelled when base/cancel.h asks for it and the workload polls.
Json run_workload(std::string_view name, const Json& spec);

// The first half of run_workload(): the complete spec that the workload would get.
Json complete_spec(const Workload& workload, const Json& spec);

// All workloads as JSON, as mqlab.list_experiments() and `mqlab show` need them.
Json describe_workloads();

}  // namespace mqlab::workloads
