// What a stress run did: how often each kind of operation, and which answers of the kernel it met on the way.
//
// While devices come and go under it, many operations are refused, and rightly so: a file is gone, a device is dead.
// Each kind of operation has the answers that such a race may give; any other is unexpected and reported.
//
// Thread safety: none; each worker has a tally of its own, and they are added up at the end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "workloads/workload.h"

namespace mqlab::workloads {

enum class StressOp : std::size_t {
  kCreateUblk,
  kDeleteUblk,
  kCreateNullBlk,
  kDeleteNullBlk,
  kRead,
  kWrite,
  kSwitchScheduler,
  kSetNrRequests,
  kCpuOffline,
  kCpuOnline,
  kReadInflight,
  kReadBusy,
  kReadTags,
};
inline constexpr std::size_t kStressOps = 13;

std::string_view name_of(StressOp op);

class StressTally {
 public:
  void done(StressOp op) { ++done_.at(static_cast<std::size_t>(op)); }
  void failed(StressOp op, int error, const std::string& message);

  void add(const StressTally& other);

  // "done:<op>", "expected:<op>:<errno>", "unexpected:<op>:<errno>", the sum of each, and "not_covered", the number of
  // kinds that were never done.
  Json counters() const;

  // A line for each kind that was never done, and for each unexpected answer with its first message.
  Json notes() const;

 private:
  struct Answer {
    std::uint64_t times = 0;
    bool expected = false;
    std::string message;  // of the first
  };
  using Key = std::pair<StressOp, int>;

  std::array<std::uint64_t, kStressOps> done_{};
  std::map<Key, Answer> answers_;
};

}  // namespace mqlab::workloads
