// Threads of the native platform, and what a "CPU" is there.
//
// A CPU of the native platform is a slot that a thread keeps for its life: per-CPU data so needs neither a system call
// nor protection against being moved to another processor in the middle of an access. spawn() with a CPU takes that
// slot and asks the system to run the thread on that processor; where the system refuses (a container's limits), the
// slot remains.
//
// Thread safety: all functions from any thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "platform/concept.h"

namespace mqlab::native {

/// The calling thread's slot: given by spawn(), 0 for every other thread. Read on every hot path, so without a check.
#if defined(__GNUC__) && !defined(__clang__)
[[gnu::tls_model("initial-exec")]]
#endif
extern constinit thread_local unsigned current_slot;

/// How many slots there are: the processors of the machine.
unsigned nr_slots();

inline unsigned this_slot() { return current_slot; }

/// Uniform in [0, bound), from a generator of the calling thread.
std::uint64_t random_below(std::uint64_t bound);

/// A running function; joined once, or when the last handle goes.
class Thread {
 public:
  Thread() = default;
  bool joinable() const { return thread_ != nullptr && thread_->joinable(); }
  void join() {
    if (joinable()) thread_->join();
  }

 private:
  friend Thread spawn(const platform::SpawnOptions& options, std::function<void()> body);
  std::shared_ptr<std::jthread> thread_;
};

/// A daemon thread is detached and runs until its function returns or the process ends. Priorities are not given: an
/// ordinary user may not set them.
Thread spawn(const platform::SpawnOptions& options, std::function<void()> body);

}  // namespace mqlab::native
