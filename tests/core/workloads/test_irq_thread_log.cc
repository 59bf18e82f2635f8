#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "workloads/irq_thread_log.h"

namespace mqlab::workloads {

namespace {

using devices::IrqThreadState;

IrqThreadState waiting_for(const std::string& function, const std::string& caller) {
  return {'D', {"rt_spin_lock", function, caller, "irq_thread", "kthread"}};
}

}  // namespace

TEST_CASE("looks are counted: how many waited at once, for whose lock, and where") {
  IrqThreadLog log;
  log.add({{'S', {}}, {'R', {}}});
  log.add({waiting_for("take", "run"), waiting_for("take", "run"), {'S', {}}});
  log.add({waiting_for("take", "other"), {'D', {}}, {'S', {}}});
  CHECK(log.in_d() == std::vector<std::uint64_t>{0, 2, 2});
  const Json counters = log.counters();
  CHECK(counters.at("looks") == 3);
  CHECK(counters.at("irq_threads_in_d_max") == 2);
  CHECK(counters.at("lock:take") == 2);  // looks, not threads
  CHECK(counters.at("wait_in:take") == 2);
  CHECK(counters.at("wait_in:run") == 1);
  CHECK(counters.at("wait_in:other") == 1);
  CHECK(counters.at("state:D") == 4);
  CHECK_FALSE(counters.contains("wait_in:irq_thread"));
  CHECK_FALSE(counters.contains("lock:rt_spin_lock"));
  CHECK(log.commonest_waits()[0] == "irq threads waited 2 times in take < run");
}

TEST_CASE("a log without a look has nothing to tell") {
  const IrqThreadLog log;
  CHECK(log.counters().at("looks") == 0);
  CHECK(log.counters().at("irq_threads_in_d_max") == 0);
  CHECK(log.commonest_waits().empty());
}

TEST_CASE("a machine without the disk is told so, with what to do") {
  try {
    run_workload("scsi_irq_load", {{"params", {{"driver", "no_such_driver"}}}});
    FAIL("a disk was found that is not there");
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kUnsupported);
    CHECK_FALSE(error.remedy.empty());
  }
}

}  // namespace mqlab::workloads
