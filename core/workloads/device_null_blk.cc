// Workload `null_blk_lifecycle` on real devices: null_blk devices are created through configfs and destroyed from
// several threads, each device timed alone.
//
// 0 queues are as many as there are CPUs. To destroy is to switch off and to remove the folder; the two are also timed
// apart. Samples are whole nanoseconds in the order of the devices' numbers. Devices that it made are gone when it
// returns, also when it throws.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "devices/control_tree.h"
#include "devices/null_blk.h"
#include "devices/undo.h"
#include "workloads/builtin.h"
#include "workloads/device_crew.h"

namespace mqlab::workloads {
namespace {

using devices::NullBlkDriver;

constexpr unsigned kOneACpu = 0;  // as a number of queues

struct Device {
  std::string name;
  bool made = false;
  std::uint64_t create_ns = 0;
  std::uint64_t power_off_ns = 0;
  std::uint64_t remove_ns = 0;
  std::uint64_t destroy_ns = 0;
};

devices::NullBlkOptions options_of(const Json& params) {
  devices::NullBlkOptions options;
  const unsigned cpus = std::max(1U, std::thread::hardware_concurrency());
  const auto queues = params.at("queues").get<unsigned>();
  options.queues = queues == kOneACpu ? cpus : queues;
  options.depth = params.at("depth").get<unsigned>();
  options.size_mib = params.at("size_mib").get<std::uint64_t>();
  options.memory_backed = params.at("memory_backed").get<bool>();
  NullBlkDriver::check(options, cpus);
  return options;
}

// Shared with the threads of the crew, since one that hangs in the kernel outlives the run.
class Lifecycle : public std::enable_shared_from_this<Lifecycle> {
 public:
  explicit Lifecycle(const Json& params)
      : options_(options_of(params)), by_rmdir_(params.at("destroy_by") == "rmdir"), driver_(tree_) {
    devices_.resize(params.at("devices").get<std::size_t>());
    for (Device& device : devices_) device.name = NullBlkDriver::fresh_name();
  }
  ~Lifecycle() { remove_leftovers(); }
  Lifecycle(const Lifecycle&) = delete;
  Lifecycle& operator=(const Lifecycle&) = delete;

  Json run(const Crew& crew) {
    const auto self = shared_from_this();
    const std::uint64_t create_total_ns =
        crew.run({.name = "creating the null_blk device",
                  .items = devices_.size(),
                  .step = [self](std::size_t, std::size_t item) { self->create(self->devices_[item]); }});
    const std::uint64_t destroy_total_ns =
        crew.run({.name = "destroying the null_blk device",
                  .items = devices_.size(),
                  .step = [self](std::size_t, std::size_t item) { self->destroy(self->devices_[item]); },
                  .measured = true});
    return result(crew, create_total_ns, destroy_total_ns);
  }

 private:
  void create(Device& device) {
    device.create_ns = timed_ns([&] { driver_.create(device.name, options_); });
    device.made = true;
  }

  void destroy(Device& device) {
    device.destroy_ns = timed_ns([&] {
      if (!by_rmdir_) device.power_off_ns = timed_ns([&] { driver_.power_off(device.name); });
      device.remove_ns = timed_ns([&] { driver_.remove(device.name); });
    });
    device.made = false;
  }

  void remove_leftovers() noexcept {
    for (const Device& device : devices_) {
      // The failure that brought us here is the one to tell, not one of these.
      if (device.made) devices::succeeds([&] { driver_.destroy(device.name); });
    }
  }

  Json column(std::uint64_t Device::* member) const {
    Json values = Json::array();
    for (const Device& device : devices_) values.push_back(device.*member);
    return values;
  }

  Json result(const Crew& crew, std::uint64_t create_total_ns, std::uint64_t destroy_total_ns) const {
    Json samples = {{"create_ns", column(&Device::create_ns)},
                    {"destroy_ns", column(&Device::destroy_ns)},
                    {"remove_ns", column(&Device::remove_ns)},
                    {"create_total_ns", Json::array({create_total_ns})},
                    {"destroy_total_ns", Json::array({destroy_total_ns})}};
    if (!by_rmdir_) samples["power_off_ns"] = column(&Device::power_off_ns);
    const Json counters = {{"devices", devices_.size()},
                           {"threads", crew.threads()},
                           {"queues", options_.queues},
                           {"depth", options_.depth},
                           {"window_operations", devices_.size()}};
    return {{"samples", samples}, {"counters", counters}, {"notes", Json::array()}};
  }

  devices::NullBlkOptions options_;
  bool by_rmdir_;
  devices::KernelTree tree_;
  NullBlkDriver driver_;
  std::vector<Device> devices_;
};

Json run(const Json& spec) {
  const Json& params = spec.at("params");
  const auto devices = params.at("devices").get<std::size_t>();
  const Crew crew(std::min(params.at("threads").get<std::size_t>(), devices),
                  std::chrono::milliseconds(params.at("limit_ms").get<std::int64_t>()));
  return std::make_shared<Lifecycle>(params)->run(crew);
}

}  // namespace

Workload null_blk_lifecycle_workload() {
  return {.name = "null_blk_lifecycle",
          .help = "Creates null_blk devices through configfs and destroys them.",
          .targets = {"device"},
          .run = run,
          .defaults = {{"devices", 100},
                       {"threads", 1},
                       {"queues", 1},
                       {"depth", 64},
                       {"size_mib", 1024},
                       {"memory_backed", false},
                       {"destroy_by", "power_off"},
                       {"limit_ms", 60000}},
          .params = {{.name = "devices", .min = 1, .max = 100000},
                     {.name = "threads", .min = 1, .max = 1024},
                     {.name = "queues", .min = kOneACpu, .max = 4096},
                     {.name = "depth", .min = 1, .max = 10240},
                     {.name = "size_mib", .min = 1, .max = 1e9},
                     {.name = "memory_backed"},
                     {.name = "destroy_by", .choices = {"power_off", "rmdir"}},
                     {.name = "limit_ms", .min = 1, .max = 3600000}}};
}

}  // namespace mqlab::workloads
