#include <algorithm>
#include <array>
#include <deque>
#include <mutex>

#include "base/error.h"
#include "workloads/builtin.h"
#include "workloads/device_ublk.h"
#include "workloads/workload.h"

namespace mqlab::workloads {

namespace {

// Every built-in workload, in the order in which lists show them. A new one is declared in builtin.h and
// named here.
constexpr std::array kBuiltin = {
    &ublk_delete_workload,        &null_blk_destroy_workload, &nvme_disconnect_workload, &tags_iterator_delay_workload,
    &life_stress_workload,        &random_draws_workload,     &ublk_lifecycle_workload,  &quiesce_rt_workload,
    &quiesce_race_workload,       &plug_batch_workload,       &random_reads_workload,    &ublk_random_reads_workload,
    &null_blk_lifecycle_workload, &nvmet_disconnect_workload, &device_stress_workload,   &device_inventory_workload,
    &scsi_irq_load_workload,
};

void check_declaration(const Workload& workload) {
  const auto reject = [&](const std::string& why) {
    throw Error(ErrorKind::kInternal, "workload '" + workload.name + "': " + why);
  };
  if (workload.name.empty() || workload.run == nullptr || workload.targets.empty()) {
    reject("needs a name, a target and a function to run");
  }
  if (!workload.defaults.is_object()) reject("its defaults are no object");
  for (const Param& param : workload.params) {
    if (!workload.defaults.contains(param.name)) reject("parameter '" + param.name + "' has no default");
  }
  if (workload.params.size() != workload.defaults.size()) {
    reject("each default needs a parameter that says what is allowed");
  }
  for (const Policy& policy : workload.policies) {
    if (policy.choices.empty()) reject("policy '" + policy.name + "' has no choices");
  }
}

// A deque, since pointers to its elements stay valid while it grows.
class Registry {
 public:
  Registry() {
    for (const auto make : kBuiltin) add(make());
  }

  void add(Workload workload) {
    check_declaration(workload);
    const std::lock_guard guard(mutex_);
    if (find_locked(workload.name) != nullptr) {
      throw Error(ErrorKind::kInternal, "workload '" + workload.name + "' is registered twice");
    }
    workloads_.push_back(std::move(workload));
  }

  const Workload* find(std::string_view name) {
    const std::lock_guard guard(mutex_);
    return find_locked(name);
  }

  std::vector<Workload> all() {
    const std::lock_guard guard(mutex_);
    return {workloads_.begin(), workloads_.end()};
  }

 private:
  const Workload* find_locked(std::string_view name) const {
    const auto it = std::ranges::find(workloads_, name, &Workload::name);
    return it == workloads_.end() ? nullptr : &*it;
  }

  std::mutex mutex_;
  std::deque<Workload> workloads_;
};

Registry& registry() {
  static Registry the_registry;
  return the_registry;
}

}  // namespace

void register_workload(Workload workload) { registry().add(std::move(workload)); }

const Workload* find_workload(std::string_view name) { return registry().find(name); }

std::vector<Workload> all_workloads() { return registry().all(); }

}  // namespace mqlab::workloads
