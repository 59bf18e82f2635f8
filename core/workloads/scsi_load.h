// The load of quiesce_rt: jobs that keep reads in flight, the CPUs' timer ticks, and a gate that freezes shut.
//
// Thread safety: of one simulated machine.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "blk/freeze.h"
#include "drivers/scsi.h"
#include "platform/sim/platform.h"

namespace mqlab::workloads {

using SimScsi = drivers::ScsiDevice<sim::Platform>;
using SimRequest = blk::QueuedRequest<sim::Platform>;

/// The timer tick of each CPU. It finds nothing to do, but costs what an interrupt costs, and comes in whatever runs.
class Ticks {
 public:
  explicit Ticks(sim::Machine& machine) : machine_(machine) {
    for (unsigned cpu = 0; cpu < machine.nr_cpus(); ++cpu) {
      timers_.push_back(std::make_unique<sim::Timer>(machine, [this, cpu] { arm(cpu); }));
      timers_.back()->set_cpu(cpu);
      arm(cpu);
    }
  }

 private:
  void arm(unsigned cpu) { timers_[cpu]->arm_at(machine_.jiffy_time_ns(machine_.jiffies() + 1)); }
  sim::Machine& machine_;
  std::vector<std::unique_ptr<sim::Timer>> timers_;
};

/// What I/O passes on its way in: the queue's usage counter, which a freeze shuts. Open and free of cost while unused.
class Gate {
 public:
  using P = sim::Platform;

  /// With a kernel, whose RCU a freeze waits for; without one it never shuts.
  explicit Gate(blk::Kernel<P>* kernel) {
    if (kernel != nullptr) usage_.emplace(*kernel, true);
  }
  void enter() {
    while (usage_ && !usage_->try_enter()) opened_.wait([this] { return !shut_; });
  }
  void leave() {
    if (usage_) usage_->leave();
  }
  void freeze_start() {
    shut_ = true;
    usage_->freeze_start();
  }
  void freeze_wait() { usage_->freeze_wait(); }
  void unfreeze() {
    usage_->unfreeze();
    shut_ = false;
    opened_.wake_all();
  }

 private:
  std::optional<blk::QueueUsage<P>> usage_;
  P::wait_queue opened_{"mq_freeze_wq"};
  bool shut_ = false;
};

/// A job: reads in flight, each submitted again when it is done.
class Job {
 public:
  using P = sim::Platform;
  using Cost = platform::Cost;

  Job(SimScsi& device, Gate& gate, unsigned index, unsigned in_flight)
      : device_(device), gate_(gate), requests_(in_flight) {
    for (SimRequest& request : requests_) {
      request.owner = index;
      free_.push_back(&request);
    }
  }

  void run() {
    for (;;) {
      idle_.wait([this] { return !free_.empty(); });
      while (!free_.empty()) submit_one();
    }
  }
  void done(SimRequest& request) {
    gate_.leave();
    free_.push_back(&request);
    idle_.wake_one();
  }

 private:
  void submit_one() {
    SimRequest& request = *free_.back();
    free_.pop_back();
    gate_.enter();
    P::charge(Cost::kIoSubmit);
    P::charge(Cost::kTagAllocSingle);
    P::charge(Cost::kRequestInit);
    device_.queue().submit(request);
  }

  SimScsi& device_;
  Gate& gate_;
  std::vector<SimRequest> requests_;
  std::vector<SimRequest*> free_;
  P::wait_queue idle_{"io"};
};

}  // namespace mqlab::workloads
