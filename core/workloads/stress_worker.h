// The workers of a stress run: each does one kind of work in a loop until it is told to stop.
//
// Thread safety: a worker is run by one thread. Workers share LiveDevices, and nothing else.
//
// Invariants: what a worker made or changed (devices, offline CPUs) is taken back when its run() returns or throws.
// Devices stay among the live ones until they are gone, so that others meet them while they are deleted.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "devices/control_tree.h"
#include "workloads/stress_tally.h"

namespace mqlab::workloads {

class LiveDevices {
 public:
  void add(const std::string& name);
  void remove(const std::string& name);
  std::optional<std::string> pick(Random& random) const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> names_;
};

struct StressOptions {
  std::chrono::milliseconds limit{0};  // of a ublk command, and of a burst of I/O
  unsigned cpus = 1;
  std::size_t devices = 4;  // that a worker which makes them has at most
};

class StressWorker {
 public:
  StressWorker(const StressOptions& options, LiveDevices& live, Random random)
      : options_(options), live_(&live), random_(random) {}
  virtual ~StressWorker() = default;
  StressWorker(const StressWorker&) = delete;
  StressWorker& operator=(const StressWorker&) = delete;

  // Until the time; throws Cancelled, and what shows that something hangs or cannot be done at all.
  void run(std::chrono::steady_clock::time_point end);

  const StressTally& tally() const { return tally_; }

  // What it is at, also while run() is running in another thread.
  std::string_view current() const { return name_of(current_.load(std::memory_order_relaxed)); }

 protected:
  virtual void turn() = 0;     // one round of the loop
  virtual void take_back() {}  // all that turn() left behind

  // Does one operation and counts it: done, or refused by the kernel. Whatever else is thrown goes on.
  bool attempt(StressOp op, const std::function<void()>& operation);

  std::optional<std::string> pick_device() { return live_->pick(random_); }

  StressOptions options_;
  LiveDevices* live_;
  Random random_;
  devices::KernelTree tree_;

 private:
  StressTally tally_;
  std::atomic<StressOp> current_{StressOp::kCreateUblk};
};

std::unique_ptr<StressWorker> make_ublk_churner(const StressOptions& options, LiveDevices& live, Random random);
std::unique_ptr<StressWorker> make_null_blk_churner(const StressOptions& options, LiveDevices& live, Random random);
std::unique_ptr<StressWorker> make_io_worker(const StressOptions& options, LiveDevices& live, Random random);
std::unique_ptr<StressWorker> make_tuner(const StressOptions& options, LiveDevices& live, Random random);
std::unique_ptr<StressWorker> make_reader(const StressOptions& options, LiveDevices& live, Random random);
std::unique_ptr<StressWorker> make_hotplugger(const StressOptions& options, LiveDevices& live, Random random);

}  // namespace mqlab::workloads
