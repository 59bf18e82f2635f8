// The policies of the workloads about the quiesce state, from their names.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "blk/quiesce.h"
#include "workloads/workload.h"

namespace mqlab::workloads {

inline constexpr std::array<std::pair<const char*, blk::QuiesceGuard>, 6> kQuiesceGuards{{
    {"spinlock", blk::QuiesceGuard::kSpinlock},
    {"raw_spinlock", blk::QuiesceGuard::kRawSpinlock},
    {"atomic_depth", blk::QuiesceGuard::kAtomicDepth},
    {"barriers", blk::QuiesceGuard::kBarriers},
    {"none", blk::QuiesceGuard::kNone},
    {"atomic_depth_alone", blk::QuiesceGuard::kAtomicDepthAlone},
}};

inline std::vector<std::string> quiesce_guards() {
  std::vector<std::string> names;
  for (const auto& [name, guard] : kQuiesceGuards) names.emplace_back(name);
  return names;
}

/// Of policies kernel, quiesce_guard and top_waiter; the latter may be absent.
inline blk::QuiesceConfig quiesce_config(const Json& policies) {
  const auto name = policies.at("quiesce_guard").get<std::string>();
  const auto guard = std::ranges::find_if(kQuiesceGuards, [&](const auto& entry) { return name == entry.first; });
  return {.guard = guard->second,
          .kernel = policies.at("kernel") == "rt" ? blk::KernelKind::kPreemptRt : blk::KernelKind::kNormal,
          .top_waiter_spins = policies.value("top_waiter", "spins") == "spins"};
}

}  // namespace mqlab::workloads
