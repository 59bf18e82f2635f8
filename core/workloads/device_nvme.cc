// Workload `nvmet_disconnect` on real devices: a target of NVMe over fabrics with namespaces on null_blk devices of
// its own is connected to from the same machine, and disconnected once all namespaces are there.
//
// Samples are whole nanoseconds: connect_ns until the controller is live, connect_ready_ns until its last namespace
// has its block device, disconnect_ns of the write to delete_controller, which returns when all of it is gone.
// Controller, target and devices are gone when it returns, also when it throws.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/cancel.h"
#include "base/error.h"
#include "devices/control_tree.h"
#include "devices/loopback.h"
#include "devices/null_blk.h"
#include "devices/nvme_host.h"
#include "devices/nvmet.h"
#include "devices/undo.h"
#include "workloads/builtin.h"
#include "workloads/device_crew.h"

namespace mqlab::workloads {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookPause{1};
// The scan that found the last namespace still has its own end to come.
constexpr milliseconds kSettle{100};

struct Params {
  std::size_t namespaces = 0;
  std::string transport;
  unsigned queues = 0;
  milliseconds limit{0};
};

Params params_of(const Json& spec) {
  const Json& given = spec.at("params");
  return {.namespaces = given.at("namespaces").get<std::size_t>(),
          .transport = given.at("transport").get<std::string>(),
          .queues = given.at("queues").get<unsigned>(),
          .limit = milliseconds(given.at("limit_ms").get<std::int64_t>())};
}

// Shared with the threads of the crew, since one that hangs in the kernel outlives the run.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  explicit Connection(Params params)
      : params_(std::move(params)), host_(tree_), nqn_(devices::NvmetTarget::fresh_nqn()) {}

  Json run() {
    if (params_.transport == "tcp") devices::bring_loopback_up();
    make_target();
    const std::uint64_t begin_ns = now_ns();
    const std::uint64_t connect_ns = alone("connecting to the NVMe target", [this] { connect(); });
    const std::string controller = controller_or_throw();
    wait_for_namespaces(controller);
    const std::uint64_t ready_ns = now_ns() - begin_ns;
    std::this_thread::sleep_for(kSettle);
    const std::uint64_t disconnect_ns =
        alone("disconnecting the controller " + controller, [this, controller] { host_.disconnect(controller); }, true);
    undo_.undo_all();
    return result(connect_ns, ready_ns, disconnect_ns);
  }

 private:
  // One action in a thread of its own, so that one which hangs can be told.
  std::uint64_t alone(std::string name, std::function<void()> action, bool measured = false) {
    const auto self = shared_from_this();
    // Shared too: an action that ends long after its limit still writes there.
    const auto time = std::make_shared<std::uint64_t>(0);
    Crew(1, params_.limit)
        .run({.name = std::move(name),
              .items = 1,
              .step = [self, time, action = std::move(action)](std::size_t, std::size_t) { *time = timed_ns(action); },
              .measured = measured});
    return *time;
  }

  void make_target() {
    devices::NullBlkDriver driver(tree_);
    devices::NvmetOptions options{.nqn = nqn_, .transport = params_.transport, .devices = {}};
    for (std::size_t i = 0; i < params_.namespaces; ++i) {
      throw_if_cancelled();
      const std::string name = devices::NullBlkDriver::fresh_name();
      driver.create(name, {});
      undo_.push([this, name] { devices::NullBlkDriver(tree_).destroy(name); });
      options.devices.push_back(devices::NullBlkDriver::node(name));
    }
    const auto target = std::make_shared<devices::NvmetTarget>(tree_, options);
    service_ = target->service();
    undo_.push([target] { target->remove(); });
    undo_.push([this] {
      if (const auto left = host_.find_controller(nqn_)) host_.disconnect(*left);
    });
  }

  void connect() {
    host_.connect({.nqn = nqn_, .transport = params_.transport, .service = service_, .queues = params_.queues});
  }

  std::string controller_or_throw() const {
    if (const auto controller = host_.find_controller(nqn_)) return *controller;
    throw Error(ErrorKind::kSystem, "no controller in /sys/class/nvme is connected to " + nqn_,
                "dmesg has the nvme driver's own words");
  }

  void wait_for_namespaces(const std::string& controller) const {
    const auto deadline = std::chrono::steady_clock::now() + params_.limit;
    for (;;) {
      const std::size_t found = host_.count_namespaces(controller);
      if (found >= params_.namespaces) return;
      throw_if_cancelled();
      if (std::chrono::steady_clock::now() >= deadline) {
        throw Error(ErrorKind::kTimeout,
                    controller + " has " + std::to_string(found) + " of " + std::to_string(params_.namespaces) +
                        " namespaces after " + std::to_string(params_.limit.count()) + " ms",
                    "dmesg has the nvme driver's own words; a busy machine needs more time");
      }
      std::this_thread::sleep_for(kLookPause);
    }
  }

  Json result(std::uint64_t connect_ns, std::uint64_t ready_ns, std::uint64_t disconnect_ns) const {
    const Json samples = {{"connect_ns", Json::array({connect_ns})},
                          {"connect_ready_ns", Json::array({ready_ns})},
                          {"disconnect_ns", Json::array({disconnect_ns})}};
    const Json counters = {
        {"namespaces", params_.namespaces}, {"queues", params_.queues}, {"window_operations", params_.namespaces}};
    return {{"samples", samples}, {"counters", counters}, {"notes", Json::array()}};
  }

  Params params_;
  devices::KernelTree tree_;
  devices::NvmeHost host_;
  std::string nqn_;
  std::uint16_t service_ = 0;
  devices::UndoStack undo_;  // last: its steps use the members above
};

Json run(const Json& spec) { return std::make_shared<Connection>(params_of(spec))->run(); }

}  // namespace

Workload nvmet_disconnect_workload() {
  return {.name = "nvmet_disconnect",
          .help = "Connects to an NVMe target on this machine and disconnects when all namespaces are there.",
          .targets = {"device"},
          .run = run,
          .defaults =
              {{"namespaces", 64}, {"transport", "tcp"}, {"queues", 4}, {"backing", "null_blk"}, {"limit_ms", 120000}},
          .params = {{.name = "namespaces", .min = 1, .max = 1024},
                     {.name = "transport", .choices = {"tcp", "loop"}},
                     {.name = "queues", .min = 1, .max = 1024},
                     {.name = "backing", .choices = {"null_blk"}},
                     {.name = "limit_ms", .min = 1, .max = 3600000}}};
}

}  // namespace mqlab::workloads
