#include "workloads/sim_spec.h"

#include <cmath>

#include "base/error.h"
#include "base/random.h"

namespace mqlab::workloads {

namespace {

// Costs may be less than a nanosecond: the fraction goes along, in 1/1024 ns.
void set_costs(sim::MachineConfig& config, const Json& profile) {
  std::string missing;
  for (std::size_t i = 0; i < platform::kCostCount; ++i) {
    const std::string name(platform::kCostInfo[i].name);
    if (!profile.at("values").contains(name)) {
      missing.append(missing.empty() ? "" : ", ").append(name);
      continue;
    }
    const auto parts = static_cast<std::uint64_t>(std::llround(profile.at("values").at(name).get<double>() * 1024));
    config.costs[i] = parts / 1024;
    config.cost_fractions[i] = static_cast<std::uint16_t>(parts % 1024);
  }
  if (!missing.empty()) {
    throw Error(ErrorKind::kUsage, "the profile " + profile.at("name").dump() + " has no value for: " + missing,
                "give each cost a value in ns under profile.values");
  }
}

}  // namespace

sim::MachineConfig machine_config(const Json& spec) {
  const bool emulator = spec.at("profile").at("name") == "guest";
  sim::MachineConfig config;
  config.cpus = spec.at("params").at("cpus").get<unsigned>();
  config.hz = spec.at("params").at("hz").get<unsigned>();
  config.seed = spec.at("seed").get<std::uint64_t>();
  set_costs(config, spec.at("profile"));
  config.cost_spread = static_cast<double>(config.costs[platform::index(platform::Cost::kCostSpread)]) / 100;
  config.lanes = emulator ? 1 : 0;
  constexpr std::uint64_t kPhaseStream = 0x7068617365;  // apart from the machine's own numbers
  config.tick_phase_ns = emulator ? 0 : Random(config.seed ^ kPhaseStream).below(1'000'000'000ULL / config.hz);
  return config;
}

}  // namespace mqlab::workloads
