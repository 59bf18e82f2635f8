#include "workloads/workload.h"

#include <algorithm>
#include <cmath>

#include "base/cancel.h"
#include "base/error.h"
#include "platform/cost.h"

namespace mqlab::workloads {

namespace {

constexpr double kLongestCostNs = 1e12;

[[noreturn]] void reject(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, what, remedy);
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

template <class Named>
std::vector<std::string> names_of(const std::vector<Named>& items) {
  std::vector<std::string> names;
  for (const Named& item : items) names.push_back(item.name);
  return names;
}

// 16 rather than 16.0, as a person would write it.
std::string number_text(double value) {
  const bool whole = std::abs(value) <= 1e18 && value == std::floor(value);
  return whole ? std::to_string(static_cast<std::int64_t>(value)) : Json(value).dump();
}

void check_number(const std::string& key, const Json& value, double min, double max) {
  const bool inside = value.is_number() && value.get<double>() >= min && value.get<double>() <= max;
  if (!inside) {
    reject(key + ": " + value.dump() + " is not allowed",
           "give a number from " + number_text(min) + " to " + number_text(max));
  }
}

void check_text(const std::string& key, const Json& value) {
  if (!value.is_string()) reject(key + ": " + value.dump() + " is not allowed", "give a text");
}

void check_choice(const std::string& key, const Json& value, const std::vector<std::string>& choices) {
  const bool known = value.is_string() && std::ranges::count(choices, value.get<std::string>()) > 0;
  if (!known) reject(key + ": " + value.dump() + " is not allowed", "choose one of: " + joined(choices));
}

void check_keys(const std::string& where, const Json& object, const std::vector<std::string>& known) {
  if (!object.is_object()) reject(where + ": " + object.dump() + " is no object", "give keys and values");
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::count(known, key) == 0) {
      reject(where + ": unknown key '" + key + "' (given: " + value.dump() + ")", "known are: " + joined(known));
    }
  }
}

Json member(const Json& spec, const char* key, const Json& otherwise) {
  return spec.contains(key) ? spec.at(key) : otherwise;
}

Json complete_params(const Workload& workload, const Json& given) {
  check_keys("params", given, names_of(workload.params));
  Json params = workload.defaults;
  for (const Param& param : workload.params) {
    if (!given.contains(param.name)) continue;
    const std::string key = "params." + param.name;
    const Json& value = given.at(param.name);
    const Json& usual = workload.defaults.at(param.name);
    if (usual.is_boolean()) {
      if (!value.is_boolean()) reject(key + ": " + value.dump() + " is not allowed", "give true or false");
    } else if (usual.is_string() && param.choices.empty()) {
      check_text(key, value);
    } else if (usual.is_string()) {
      check_choice(key, value, param.choices);
    } else {
      check_number(key, value, param.min, param.max);
      const bool whole = value.get<double>() == std::floor(value.get<double>());
      if (usual.is_number_integer() && !whole) {
        reject(key + ": " + value.dump() + " is not allowed", "give a whole number");
      }
    }
    // A whole number may arrive as 16.0, as JSON writers other than ours print it.
    const bool retyped = usual.is_number_integer() && value.is_number_float();
    params[param.name] = retyped ? Json(static_cast<std::int64_t>(value.get<double>())) : value;
  }
  return params;
}

Json complete_policies(const Workload& workload, const Json& given) {
  check_keys("policies", given, names_of(workload.policies));
  Json policies = Json::object();
  for (const Policy& policy : workload.policies) {
    const Json value = member(given, policy.name.c_str(), policy.choices.front());
    check_choice("policies." + policy.name, value, policy.choices);
    policies[policy.name] = value;
  }
  return policies;
}

std::vector<std::string> cost_names() {
  std::vector<std::string> names;
  for (const platform::CostInfo& info : platform::kCostInfo) names.emplace_back(info.name);
  return names;
}

Json complete_profile(const Json& given) {
  check_keys("profile", given, {"name", "values"});
  Json profile = {{"name", member(given, "name", "default")}, {"values", member(given, "values", Json::object())}};
  if (!profile["name"].is_string()) reject("profile.name: " + profile["name"].dump() + " is no text", "give a name");
  check_keys("profile.values", profile["values"], cost_names());
  for (const auto& [cost, value] : profile["values"].items()) {
    check_number("profile.values." + cost, value, 0, kLongestCostNs);
  }
  return profile;
}

}  // namespace

Json complete_spec(const Workload& workload, const Json& spec) {
  check_keys("spec of " + workload.name, spec, {"target", "seed", "params", "policies", "profile"});
  const Json target = member(spec, "target", workload.targets.front());
  check_choice("target", target, workload.targets);
  const Json seed = member(spec, "seed", 1);
  if (!seed.is_number_integer() || (!seed.is_number_unsigned() && seed.get<std::int64_t>() < 0)) {
    reject("seed: " + seed.dump() + " is not allowed", "give a whole number from 0 to 18446744073709551615");
  }
  const Json nothing = Json::object();
  return {{"target", target},
          {"seed", seed.get<std::uint64_t>()},
          {"params", complete_params(workload, member(spec, "params", nothing))},
          {"policies", complete_policies(workload, member(spec, "policies", nothing))},
          {"profile", complete_profile(member(spec, "profile", nothing))}};
}

Json run_workload(std::string_view name, const Json& spec) {
  const Workload* workload = find_workload(name);
  if (workload == nullptr) {
    reject("unknown workload '" + std::string(name) + "'", "known are: " + joined(names_of(all_workloads())));
  }
  const CancelScope scope;
  const Json complete = complete_spec(*workload, spec);
  try {
    return workload->run(complete);
  } catch (const Json::exception& error) {
    // The spec was checked, so a key that it lacks is one that the workload does not declare.
    throw Error(ErrorKind::kInternal, "workload '" + workload->name + "' misread its spec: " + error.what(),
                "report this with the spec: " + complete.dump());
  }
}

Json describe_workloads() {
  Json list = Json::array();
  for (const Workload& workload : all_workloads()) {
    Json params = Json::array();
    for (const Param& param : workload.params) {
      params.push_back({{"name", param.name},
                        {"default", workload.defaults.at(param.name)},
                        {"min", param.min},
                        {"max", param.max},
                        {"choices", param.choices}});
    }
    Json policies = Json::array();
    for (const Policy& policy : workload.policies) {
      policies.push_back({{"name", policy.name}, {"choices", policy.choices}});
    }
    list.push_back({{"name", workload.name},
                    {"help", workload.help},
                    {"targets", workload.targets},
                    {"params", std::move(params)},
                    {"policies", std::move(policies)}});
  }
  return list;
}

}  // namespace mqlab::workloads
