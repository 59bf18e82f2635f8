// A SCSI controller with MSI-X: commands in, completions out through vectors, each with an irq thread of its own.
//
// The device behind it serves commands in order, at times like those of many independent drives together: nearly a
// Poisson stream of a mean interval (Cost::kScsiDeviceIo) while it has work. Completions wait in their vector's reply
// queue. The first one raises the vector's interrupt, on the vector's CPU; the interrupt wakes the irq thread, which
// takes what is there until nothing is left, without further interrupts, as threaded handlers do.
//
// Thread safety: start() from any task. P needs interrupts and timers in nanoseconds: simulated platforms only.
#pragma once

#include <algorithm>
#include <bit>
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
  kHwQueue,   ///< that of the request's hardware queue
  kBalanced,  ///< 16 commands to one vector, the next 16 to the next, whatever hardware queue they come from: so does
              ///< megaraid_sas with the vectors that it keeps for busy devices (its balanced mode), of which there are
              ///< 8
};

struct ControllerConfig {
  unsigned vectors = 8;
  int irq_thread_priority = 0;
  VectorChoice vector_choice = VectorChoice::kBalanced;
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
    free_at_ns_ = std::max(free_at_ns_, P::now_ns()) + service_ns() / speed_;
    choose_vector(request).expect(free_at_ns_, request);
  }

  /// From now on the device takes a `times`th of its time, as when a cache answers for it.
  void set_speed(unsigned times) { speed_ = times; }

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
      if (!masked_ && replies_.size() == 1) interrupt_.arm_at(replies_.front().done_ns);
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

  // Exponential but for rounding: -log2 of a random number, piecewise linear between powers of two, whose mean is 3/2.
  // Integers only, so that every machine draws the same.
  static std::uint64_t service_ns() {
    constexpr unsigned kBits = 20;
    const std::uint64_t draw = P::random_below(std::uint64_t{1} << kBits) | 1;
    const auto zeros = static_cast<unsigned>(std::countl_zero(draw)) - (64 - kBits);
    const std::uint64_t fraction = (draw << (zeros + 1)) & ((std::uint64_t{1} << kBits) - 1);
    const std::uint64_t minus_log2 = (std::uint64_t{zeros + 2} << kBits) - (std::uint64_t{1} << kBits) - fraction;
    return (P::cost_ns(Cost::kScsiDeviceIo) * minus_log2 * 2 / 3) >> kBits;
  }

  Vector& choose_vector(const Request& request) {
    constexpr std::size_t kBatch = 16;
    const std::size_t i = config_.vector_choice == VectorChoice::kBalanced ? next_++ / kBatch : request.hw_queue->index;
    return *vectors_[i % vectors_.size()];
  }

  ControllerConfig config_;
  std::function<void(Request&)> complete_;
  std::vector<typename P::thread> irq_threads_;
  std::vector<std::unique_ptr<Vector>> vectors_;
  std::uint64_t free_at_ns_ = 0;
  unsigned speed_ = 1;
  std::size_t next_ = 0;
};

}  // namespace mqlab::drivers
