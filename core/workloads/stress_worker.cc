#include "workloads/stress_worker.h"

#include "base/cancel.h"
#include "base/error.h"
#include "devices/undo.h"

namespace mqlab::workloads {

void LiveDevices::add(const std::string& name) {
  const std::lock_guard guard(mutex_);
  names_.push_back(name);
}

void LiveDevices::remove(const std::string& name) {
  const std::lock_guard guard(mutex_);
  std::erase(names_, name);
}

std::optional<std::string> LiveDevices::pick(Random& random) const {
  const std::lock_guard guard(mutex_);
  if (names_.empty()) return std::nullopt;
  return names_[random.below(names_.size())];
}

void StressWorker::run(std::chrono::steady_clock::time_point end) {
  try {
    while (std::chrono::steady_clock::now() < end) {
      throw_if_cancelled();
      turn();
    }
  } catch (...) {
    // What failed first is what to tell; taking back may well fail after it.
    devices::succeeds([this] { take_back(); });
    throw;
  }
  take_back();
}

bool StressWorker::attempt(StressOp op, const std::function<void()>& operation) {
  current_.store(op, std::memory_order_relaxed);
  try {
    operation();
  } catch (const Error& error) {
    if (error.os_errno == 0) throw;
    tally_.failed(op, error.os_errno, error.what());
    return false;
  }
  tally_.done(op);
  return true;
}

}  // namespace mqlab::workloads
