// The policies and parameters that the workloads about devices' lives share, from their names.
#pragma once

#include <string>
#include <vector>

#include "blk/gendisk.h"
#include "blk/tag_set.h"
#include "workloads/workload.h"

namespace mqlab::workloads {

inline Policy tags_srcu_policy() { return {.name = "tags_srcu", .choices = {"per_set", "global", "unprotected"}}; }
inline Policy elv_flag_policy() { return {.name = "elv_flag_lock", .choices = {"write", "read", "none"}}; }

inline blk::TagsSrcu tags_srcu(const Json& spec) {
  const auto name = spec.at("policies").at("tags_srcu").get<std::string>();
  if (name == "global") return blk::TagsSrcu::kGlobal;
  return name == "per_set" ? blk::TagsSrcu::kPerSet : blk::TagsSrcu::kUnprotected;
}

inline blk::ElvFlagLock elv_flag_lock(const Json& spec) {
  const auto name = spec.at("policies").at("elv_flag_lock").get<std::string>();
  if (name == "read") return blk::ElvFlagLock::kRead;
  return name == "write" ? blk::ElvFlagLock::kWrite : blk::ElvFlagLock::kNone;
}

inline std::vector<Param> machine_params() {
  return {{.name = "hz", .min = 100, .max = 1000}, {.name = "cpus", .min = 1, .max = 1024}};
}

inline std::vector<Param> device_params() {
  std::vector<Param> params = machine_params();
  params.insert(params.end(), {{.name = "devices", .min = 1, .max = 100'000},
                               {.name = "threads", .min = 1, .max = 1024},
                               {.name = "queues", .min = 1, .max = 256},
                               {.name = "depth", .min = 1, .max = 10'240}});
  return params;
}

inline Json device_defaults(unsigned devices, unsigned threads) {
  return {{"hz", 1000}, {"cpus", 16}, {"devices", devices}, {"threads", threads}, {"queues", 1}, {"depth", 16}};
}

}  // namespace mqlab::workloads
