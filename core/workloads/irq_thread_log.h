// What was seen of irq threads over many looks: how many waited at once, where, and for whose lock.
//
// Thread safety: none; the thread that looks adds, another may read after it has ended.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "devices/irq_threads.h"
#include "workloads/workload.h"

namespace mqlab::workloads {

class IrqThreadLog {
 public:
  void add(const std::vector<devices::IrqThreadState>& look);

  const std::vector<std::uint64_t>& in_d() const noexcept { return in_d_; }

  // "looks", "irq_threads_in_d_max", "state:R" (threads seen in that state, over all looks), "lock:FUNCTION": looks
  // that saw a thread waiting for a lock which FUNCTION takes, "wait_in:FUNCTION": looks that saw one waiting in or
  // below FUNCTION.
  Json counters() const;

  // The commonest ways in which threads waited, "41 times: lock taker < its caller < ...".
  Json commonest_waits() const;

 private:
  std::vector<std::uint64_t> in_d_;
  std::map<char, std::uint64_t> states_;  // counted by thread
  std::map<std::string, std::uint64_t> locks_;
  std::map<std::string, std::uint64_t> sites_;
  std::map<std::string, std::uint64_t> paths_;  // counted by thread
};

}  // namespace mqlab::workloads
