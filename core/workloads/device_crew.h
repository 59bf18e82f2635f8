// Threads that work through numbered items together, as the workloads on real devices need it: a common start, the
// time from there to the end of the last, a time limit for each item.
//
// Thread safety: a crew belongs to one thread, which waits in run(); the step is called from all threads at once,
// for different items.
//
// Invariants: after the first failure no thread begins another item. A step that does not end within the limit hangs
// in the kernel, where nothing can stop it: run() throws kTimeout and leaves that thread alone. So a step must own
// (by shared_ptr) all that it uses.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace mqlab::workloads {

std::uint64_t now_ns();

template <class F>
std::uint64_t timed_ns(F&& work) {
  const std::uint64_t begin_ns = now_ns();
  work();
  return now_ns() - begin_ns;
}

struct CrewPhase {
  std::string name;  // of what is done with an item, for messages
  std::size_t items = 0;
  std::function<void(std::size_t thread, std::size_t item)> step;
  bool measured = false;  // lies in the measured window (base/window.h)
};

class Crew {
 public:
  Crew(std::size_t threads, std::chrono::milliseconds limit) : threads_(threads), limit_(limit) {}

  std::size_t threads() const { return threads_; }

  // Does the phase, thread t taking the items t, t + threads, ... Returns the time from the moment all threads were
  // ready to the end of the last one. Throws what a step threw, Cancelled, or kTimeout.
  std::uint64_t run(CrewPhase phase) const;

 private:
  std::size_t threads_;
  std::chrono::milliseconds limit_;
};

}  // namespace mqlab::workloads
