#include "workloads/device_ublk.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "devices/control_tree.h"
#include "devices/ublk_control.h"
#include "devices/ublk_limit.h"
#include "devices/ublk_server.h"
#include "workloads/device_crew.h"

namespace mqlab::workloads {
namespace {

using devices::UblkControl;
using devices::UblkNullServer;

constexpr std::uint32_t kBufferBytes = 64 * 1024;
constexpr std::uint64_t kDiskBytes = 1ULL << 30U;
constexpr int kCommandsAnItem = 4;
constexpr std::chrono::seconds kBetweenCommands{10};

struct Params {
  std::size_t devices = 0;
  std::size_t threads = 0;
  std::uint16_t queues = 0;
  std::uint16_t depth = 0;
  bool life = false;
  bool async = false;
  std::chrono::milliseconds limit{0};
};

Params params_of(const Json& spec) {
  const Json& given = spec.at("params");
  return {.devices = given.at("devices").get<std::size_t>(),
          .threads = given.at("threads").get<std::size_t>(),
          .queues = given.at("queues").get<std::uint16_t>(),
          .depth = given.at("depth").get<std::uint16_t>(),
          .life = given.at("mode") == "life",
          .async = given.at("del_async").get<bool>(),
          .limit = std::chrono::milliseconds(given.at("limit_ms").get<std::int64_t>())};
}

// A live device holds its character device and a ring a queue; a control two more. As root the hard limit may be
// raised too.
void allow_descriptors(const Params& params) {
  const std::uint64_t needed = 64 + 2 * params.threads + (params.life ? params.devices * (1U + params.queues) : 0U);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= needed) return;
  const rlimit wanted{needed, std::max<rlim_t>(limit.rlim_max, needed)};
  if (setrlimit(RLIMIT_NOFILE, &wanted) == 0) return;
  throw Error(
      ErrorKind::kUnsupported,
      "raising the limit of open files to " + std::to_string(needed) + " was answered with " + std::strerror(errno),
      "raise it (ulimit -n), ask for fewer devices, or run as root", errno);
}

// One device: what exists of it, and how long each step took.
struct Device {
  bool added = false;
  devices::ublk::DevInfo info{};
  std::unique_ptr<UblkNullServer> server;
  std::uint64_t add_ns = 0;
  std::uint64_t start_ns = 0;
  std::uint64_t stop_ns = 0;
  std::uint64_t close_ns = 0;
  std::uint64_t del_ns = 0;
};

// Shared with the threads of the crew, since one that hangs in the kernel outlives the run.
class Lifecycle : public std::enable_shared_from_this<Lifecycle> {
 public:
  explicit Lifecycle(const Params& params) : params_(params), devices_(params.devices), limit_(tree_, params.devices) {
    allow_descriptors(params);
    const std::size_t threads = std::min(params.threads, params.devices);
    for (std::size_t i = 0; i < threads; ++i) {
      controls_.push_back(std::make_unique<UblkControl>(params.limit));
    }
    controls_.front()->check_commands();
  }
  ~Lifecycle() { remove_leftovers(); }
  Lifecycle(const Lifecycle&) = delete;
  Lifecycle& operator=(const Lifecycle&) = delete;

  Json run() {
    const auto self = shared_from_this();
    // Each command has its own limit; the crew's is for what lies between them.
    const Crew crew(controls_.size(), kCommandsAnItem * params_.limit + kBetweenCommands);
    const std::uint64_t add_total_ns = crew.run({.name = "adding the ublk device",
                                                 .items = devices_.size(),
                                                 .step = [self](std::size_t thread, std::size_t item) {
                                                   self->create(*self->controls_[thread], self->devices_[item]);
                                                 }});
    const std::uint64_t delete_total_ns =
        crew.run({.name = "deleting the ublk device",
                  .items = devices_.size(),
                  .step = [self](std::size_t thread,
                                 std::size_t item) { self->destroy(*self->controls_[thread], self->devices_[item]); },
                  .measured = true});
    if (params_.async) wait_until_gone();
    return result(add_total_ns, delete_total_ns);
  }

 private:
  void create(UblkControl& control, Device& device) {
    devices::UblkAddRequest request;
    request.queues = params_.queues;
    request.depth = params_.depth;
    request.max_io_buf_bytes = kBufferBytes;
    device.add_ns = timed_ns([&] { device.info = control.add(request); });
    device.added = true;
    if (!params_.life) return;
    control.set_params(device.info.dev_id, devices::basic_params(kDiskBytes, kBufferBytes));
    device.start_ns = timed_ns([&] {
      device.server = std::make_unique<UblkNullServer>(device.info);
      control.start(device.info.dev_id, getpid());
    });
  }

  void destroy(UblkControl& control, Device& device) {
    if (params_.life) {
      device.stop_ns = timed_ns([&] { control.stop(device.info.dev_id); });
      device.close_ns = timed_ns([&] {
        device.server->join();
        device.server->close_device();
      });
    }
    device.del_ns = timed_ns([&] {
      if (params_.async) {
        control.del_async(device.info.dev_id);
      } else {
        control.del(device.info.dev_id);
      }
    });
    device.added = false;
  }

  void wait_until_gone() {
    const auto deadline = std::chrono::steady_clock::now() + params_.limit;
    for (const Device& device : devices_) {
      while (!controls_.front()->is_gone(device.info.dev_id)) {
        if (std::chrono::steady_clock::now() >= deadline) {
          throw Error(ErrorKind::kTimeout,
                      "ublk device " + std::to_string(device.info.dev_id) + " is still there " +
                          std::to_string(params_.limit.count()) + " ms after DEL_DEV_ASYNC",
                      "look for who holds it open, and for a hung task in dmesg");
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }

  // After a failure: a STOP before each DEL, since a device that was half started hangs a DEL without it.
  // What cannot be removed is left to the caller's own error.
  void remove_leftovers() noexcept {
    for (Device& device : devices_) {
      if (!device.added) continue;
      try {
        UblkControl control(params_.limit);
        control.stop(device.info.dev_id);
        device.server.reset();
        control.del(device.info.dev_id);
        device.added = false;
      } catch (const std::exception&) {
        device.server.reset();
      }
    }
  }

  Json column(std::uint64_t Device::* member) const {
    Json values = Json::array();
    for (const Device& device : devices_) values.push_back(device.*member);
    return values;
  }

  Json result(std::uint64_t add_total_ns, std::uint64_t delete_total_ns) const {
    Json samples = {{"add_dev_ns", column(&Device::add_ns)},
                    {"del_dev_ns", column(&Device::del_ns)},
                    {"add_total_ns", Json::array({add_total_ns})},
                    {"delete_total_ns", Json::array({delete_total_ns})}};
    if (params_.life) {
      samples["start_dev_ns"] = column(&Device::start_ns);
      samples["stop_dev_ns"] = column(&Device::stop_ns);
      samples["close_dev_ns"] = column(&Device::close_ns);
    }
    const Json counters = {{"control_worker_limit", controls_.front()->worker_limit()},
                           {"devices", devices_.size()},
                           {"window_operations", devices_.size()},
                           {"threads", controls_.size()},
                           {"queues", devices_.front().info.nr_hw_queues},
                           {"depth", devices_.front().info.queue_depth}};
    return {{"samples", samples}, {"counters", counters}, {"notes", notes()}};
  }

  Json notes() const {
    Json notes = Json::array();
    const auto queues = devices_.front().info.nr_hw_queues;
    if (queues != params_.queues) {
      notes.push_back("the kernel capped " + std::to_string(params_.queues) + " queues a device to " +
                      std::to_string(queues));
    }
    return notes;
  }

  Params params_;
  std::vector<Device> devices_;
  devices::KernelTree tree_;
  devices::UblkDeviceLimit limit_;
  std::vector<std::unique_ptr<UblkControl>> controls_;
};

Json run(const Json& spec) { return std::make_shared<Lifecycle>(params_of(spec))->run(); }

}  // namespace

Workload ublk_lifecycle_workload() {
  return {.name = "ublk_lifecycle",
          .help = "Adds ublk devices, starts and stops a null server on each in mode life, and deletes them.",
          .targets = {"device"},
          .run = run,
          .defaults = {{"devices", 100},
                       {"threads", 1},
                       {"queues", 1},
                       {"depth", 16},
                       {"mode", "add_del"},
                       {"del_async", false},
                       {"limit_ms", 60000}},
          .params = {{.name = "devices", .min = 1, .max = 100000},
                     {.name = "threads", .min = 1, .max = 1024},
                     {.name = "queues", .min = 1, .max = devices::ublk::kMaxQueues},
                     {.name = "depth", .min = 1, .max = devices::ublk::kMaxQueueDepth},
                     {.name = "mode", .choices = {"add_del", "life"}},
                     {.name = "del_async"},
                     {.name = "limit_ms", .min = 1, .max = 3600000}}};
}

}  // namespace mqlab::workloads
