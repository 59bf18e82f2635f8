// A fiber: a stack and the place where it stopped, on Boost.Context.
//
// Thread safety: a fiber belongs to the thread that created it. Sanitizers are told of each switch, so that they follow
// the stacks; without that every switch would look like a stack overflow to them.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <functional>

namespace mqlab::sim {

/// Where a fiber comes back to: the context that resumed it. One a machine.
class FiberHost {
 public:
  FiberHost();
  ~FiberHost();
  FiberHost(const FiberHost&) = delete;
  FiberHost& operator=(const FiberHost&) = delete;

 private:
  friend class Fiber;
  boost::context::detail::fcontext_t context_ = nullptr;
  void* fake_stack_ = nullptr;          // asan's, of the host while a fiber runs
  const void* stack_bottom_ = nullptr;  // the host's stack, learned at the first switch
  std::size_t stack_size_ = 0;
  void* tsan_fiber_ = nullptr;
};

/// Runs a function on a stack of its own. Invariant: resume() is called by the host, suspend() by the fiber.
class Fiber {
 public:
  static constexpr std::size_t kStackBytes = 64 * 1024;

  Fiber(FiberHost& host, std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the fiber until it suspends or its function returns. An exception that leaves the function ends the program:
  /// the body must catch.
  void resume();
  /// Goes back to the host; returns at the next resume().
  void suspend();
  bool finished() const { return finished_; }

 private:
  static void entry(boost::context::detail::transfer_t transfer);
  void leave(bool for_good);

  FiberHost& host_;
  std::function<void()> body_;
  void* stack_ = nullptr;
  boost::context::detail::fcontext_t context_ = nullptr;
  void* fake_stack_ = nullptr;
  void* tsan_fiber_ = nullptr;
  bool finished_ = false;
};

}  // namespace mqlab::sim
