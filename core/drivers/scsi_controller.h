// A SCSI controller with MSI-X: commands in, completions out through vectors, each with an irq thread of its own.
//
// The device behind it serves one command at a time at a mean cost (Cost::kScsiDeviceIo), in order. Completions wait in
// their vector's reply queue. The first one raises the vector's interrupt, on the vector's CPU; the interrupt wakes the
// irq thread, which takes what is there until nothing is left, without further interrupts, as threaded handlers do.
//
// Thread safety: start() from any task. P needs interrupts and timers in nanoseconds: simulated platforms only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "blk/hw_queue.h"

namespace mqlab::drivers {

/// To which vector a completion goes.
enum class VectorChoice {
  kHwQueue,     ///< that of the request's hardware queue, as a host with a tag set for all its queues
  kRoundRobin,  ///< the next one, as a host that balances its vectors
};

struct ControllerConfig {
  unsigned vectors = 8;
  int irq_thread_priority = 0;
  VectorChoice vector_choice = VectorChoice::kHwQueue;
};

template <class P>
class ScsiController {
 public:
  using Cost = platform::Cost;
  using Request = blk::QueuedRequest<P>;

  /// `complete` is what an irq thread does with each completion.
  ScsiController(const ControllerConfig& config, std::function<void(Request&)> complete)
      : config_(config), complete_(std::move(complete)) {
    for (unsigned i = 0; i < config.vectors; ++i) vectors_.push_back(std::make_unique<Vector>(*this, i));
  }
  ScsiController(const ScsiController&) = delete;
  ScsiController& operator=(const ScsiController&) = delete;

  /// Gives a command to the device.
  void start(Request& request) {
    const std::uint64_t mean_ns = P::cost_ns(Cost::kScsiDeviceIo);
    // Half to one and a half times the mean: without any spread, the vectors would move in lockstep.
    const std::uint64_t service_ns = mean_ns / 2 + P::random_below(mean_ns + 1);
    free_at_ns_ = std::max(free_at_ns_, P::now_ns()) + service_ns;
    choose_vector(request).expect(free_at_ns_, request);
  }

  const std::vector<typename P::thread>& irq_threads() const { return irq_threads_; }

 private:
  class Vector {
   public:
    Vector(ScsiController& controller, unsigned index)
        : controller_(controller), interrupt_([this] { on_interrupt(); }) {
      const unsigned cpu = index % P::nr_cpus();
      interrupt_.set_cpu(cpu);
      controller.irq_threads_.push_back(P::spawn({.name = "irq/" + std::to_string(index) + "-scsi",
                                                  .cpu = static_cast<int>(cpu),
                                                  .priority = controller.config_.irq_thread_priority,
                                                  .daemon = true},
                                                 [this] { serve(); }));
    }

    void expect(std::uint64_t done_ns, Request& request) {
      replies_.push_back({done_ns, &request});
      if (!masked_ && replies_.size() == 1) interrupt_.arm_at(done_ns);
    }

   private:
    struct Reply {
      std::uint64_t done_ns;
      Request* request;
    };

    void on_interrupt() {
      masked_ = true;
      wake_.wake_one();
    }
    bool has_reply() const { return !replies_.empty() && replies_.front().done_ns <= P::now_ns(); }

    void serve() {
      for (;;) {
        wake_.wait([this] { return masked_; });
        while (has_reply()) {
          Request& request = *replies_.front().request;
          replies_.pop_front();
          controller_.complete_(request);
        }
        masked_ = false;
        if (!replies_.empty()) interrupt_.arm_at(replies_.front().done_ns);
      }
    }

    ScsiController& controller_;
    typename P::timer interrupt_;
    typename P::wait_queue wake_{"interrupt"};
    std::deque<Reply> replies_;
    bool masked_ = false;  // the irq thread is at work
  };

  Vector& choose_vector(const Request& request) {
    const std::size_t i = config_.vector_choice == VectorChoice::kRoundRobin ? next_++ : request.hw_queue->index;
    return *vectors_[i % vectors_.size()];
  }

  ControllerConfig config_;
  std::function<void(Request&)> complete_;
  std::vector<typename P::thread> irq_threads_;
  std::vector<std::unique_ptr<Vector>> vectors_;
  std::uint64_t free_at_ns_ = 0;
  std::size_t next_ = 0;
};

}  // namespace mqlab::drivers
