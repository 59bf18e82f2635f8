#include "workloads/stress_tally.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <utility>
#include <vector>

namespace mqlab::workloads {
namespace {

struct OpInfo {
  std::string_view name;
  std::vector<int> expected;
};

const std::array<OpInfo, kStressOps>& infos() {
  // A device that is on its way out answers so: its files go one after the other, its queue is dead before its node.
  static const std::vector<int> gone = {ENOENT, ENODEV, ENXIO};
  static const auto gone_or = [](std::initializer_list<int> more) {
    std::vector<int> all = gone;
    all.insert(all.end(), more);
    return all;
  };
  static const std::array<OpInfo, kStressOps> all = {{
      {"create_ublk", {}},
      {"delete_ublk", {}},
      {"create_null_blk", {}},
      {"delete_null_blk", {}},
      // A disk that is being deleted has no size any more: a read then ends at once, a write finds no room.
      {"read", gone_or({EIO, ENODATA})},
      {"write", gone_or({EIO, ENOSPC})},
      // Another switch is under way, or the disk is being deleted.
      {"switch_scheduler", gone_or({EBUSY, EAGAIN})},
      // Without a scheduler the depth of the tag set is the limit.
      {"set_nr_requests", gone_or({EBUSY, EINVAL})},
      {"cpu_offline", {EBUSY}},
      {"cpu_online", {EBUSY}},
      {"read_inflight", gone},
      {"read_busy", gone_or({EIO})},
      {"read_tags", gone_or({EIO})},
  }};
  return all;
}

const OpInfo& info_of(StressOp op) { return infos().at(static_cast<std::size_t>(op)); }

std::string errno_name(int error) {
  const char* name = strerrorname_np(error);
  return name == nullptr ? std::to_string(error) : name;
}

}  // namespace

std::string_view name_of(StressOp op) { return info_of(op).name; }

void StressTally::failed(StressOp op, int error, const std::string& message) {
  Answer& answer = answers_[{op, error}];
  if (answer.times++ == 0) answer.message = message;
  const std::vector<int>& expected = info_of(op).expected;
  answer.expected = std::ranges::count(expected, error) > 0;
}

void StressTally::add(const StressTally& other) {
  for (std::size_t i = 0; i < kStressOps; ++i) done_.at(i) += other.done_.at(i);
  for (const auto& [key, theirs] : other.answers_) {
    Answer& ours = answers_[key];
    if (ours.times == 0) ours = {.times = 0, .expected = theirs.expected, .message = theirs.message};
    ours.times += theirs.times;
  }
}

Json StressTally::counters() const {
  Json counters = Json::object();
  std::uint64_t done = 0;
  std::uint64_t not_covered = 0;
  for (std::size_t i = 0; i < kStressOps; ++i) {
    counters["done:" + std::string(infos().at(i).name)] = done_.at(i);
    done += done_.at(i);
    not_covered += done_.at(i) == 0 ? 1 : 0;
  }
  std::uint64_t expected = 0;
  std::uint64_t unexpected = 0;
  for (const auto& [key, answer] : answers_) {
    const std::string kind = answer.expected ? "expected" : "unexpected";
    counters[kind + ':' + std::string(name_of(key.first)) + ':' + errno_name(key.second)] = answer.times;
    (answer.expected ? expected : unexpected) += answer.times;
  }
  counters["done"] = done;
  counters["expected"] = expected;
  counters["unexpected"] = unexpected;
  counters["not_covered"] = not_covered;
  return counters;
}

Json StressTally::notes() const {
  Json notes = Json::array();
  for (std::size_t i = 0; i < kStressOps; ++i) {
    if (done_.at(i) == 0) notes.push_back("not covered: " + std::string(infos().at(i).name));
  }
  for (const auto& [key, answer] : answers_) {
    if (answer.expected) continue;
    notes.push_back("unexpected: " + std::string(name_of(key.first)) + " failed " + std::to_string(answer.times) +
                    " times; first: " + answer.message);
  }
  return notes;
}

}  // namespace mqlab::workloads
