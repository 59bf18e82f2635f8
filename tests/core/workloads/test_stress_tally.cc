#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "base/cancel.h"
#include "base/error.h"
#include "workloads/stress_tally.h"
#include "workloads/stress_worker.h"

namespace mqlab::workloads {

namespace {

// Does what it is told each turn, and notes that it took back.
class Worker final : public StressWorker {
 public:
  Worker(LiveDevices& live, std::function<void(Worker&)> work)
      : StressWorker({}, live, Random(1)), work_(std::move(work)) {}
  using StressWorker::attempt;
  bool taken_back = false;
  bool fails_to_take_back = false;

 protected:
  void turn() override { work_(*this); }
  void take_back() override {
    taken_back = true;
    if (fails_to_take_back) throw Error(ErrorKind::kSystem, "could not take back");
  }

 private:
  std::function<void(Worker&)> work_;
};

auto now() { return std::chrono::steady_clock::now(); }
auto much_later() { return now() + std::chrono::hours(1); }

}  // namespace

TEST_CASE("what was never done is told as not covered") {
  StressTally tally;
  CHECK(tally.counters()["not_covered"] == kStressOps);
  CHECK(tally.notes().size() == kStressOps);
  tally.done(StressOp::kRead);
  CHECK(tally.counters()["done:read"] == 1);
  CHECK(tally.counters()["done:cpu_offline"] == 0);
  CHECK(tally.counters()["not_covered"] == kStressOps - 1);
  for (const Json& note : tally.notes()) CHECK(note != "not covered: read");
}

TEST_CASE("an answer that a race may give is expected, another is told with its first message") {
  StressTally tally;
  tally.failed(StressOp::kReadInflight, ENOENT, "gone");
  tally.failed(StressOp::kReadInflight, ENOENT, "gone again");
  tally.failed(StressOp::kDeleteUblk, EIO, "first");
  tally.failed(StressOp::kDeleteUblk, EIO, "second");
  const Json counters = tally.counters();
  CHECK(counters["expected:read_inflight:ENOENT"] == 2);
  CHECK(counters["unexpected:delete_ublk:EIO"] == 2);
  CHECK(counters["expected"] == 2);
  CHECK(counters["unexpected"] == 2);
  CHECK(tally.notes().back() == "unexpected: delete_ublk failed 2 times; first: first");
}

TEST_CASE("the tallies of workers add up") {
  StressTally sum;
  StressTally one;
  one.done(StressOp::kWrite);
  one.failed(StressOp::kWrite, EINVAL, "odd");
  sum.add(one);
  sum.add(one);
  CHECK(sum.counters()["done:write"] == 2);
  CHECK(sum.counters()["unexpected:write:EINVAL"] == 2);
  CHECK(sum.notes().back() == "unexpected: write failed 2 times; first: odd");
}

TEST_CASE("a worker counts what the kernel refuses and goes on, and takes back at its end") {
  LiveDevices live;
  unsigned turns = 0;
  Worker worker(live, [&](Worker& self) {
    ++turns;
    const bool done = self.attempt(StressOp::kRead, [&] {
      if (turns % 2 == 0) throw Error(ErrorKind::kSystem, "refused", "", EIO);
    });
    CHECK(done == (turns % 2 == 1));
    if (turns == 5) request_cancel();
  });
  const CancelScope scope;
  CHECK_THROWS_AS(worker.run(much_later()), Cancelled);
  CHECK(turns == 5);
  CHECK(worker.tally().counters()["done:read"] == 3);
  CHECK(worker.tally().counters()["expected:read:EIO"] == 2);
  CHECK(worker.taken_back);
}

TEST_CASE("what is no answer of the kernel ends a worker, which still takes back") {
  LiveDevices live;
  Worker worker(live, [](Worker& self) {
    self.attempt(StressOp::kWrite, [] { throw Error(ErrorKind::kTimeout, "a request hangs"); });
  });
  worker.fails_to_take_back = true;
  CHECK_THROWS_WITH_AS(worker.run(much_later()), "a request hangs", Error);
  CHECK(worker.taken_back);
  CHECK(worker.current() == "write");
}

TEST_CASE("a worker whose time is over does nothing more, and tells when it could not take back") {
  LiveDevices live;
  Worker worker(live, [](Worker&) { FAIL("another turn"); });
  worker.run(now());
  CHECK(worker.taken_back);
  worker.fails_to_take_back = true;
  CHECK_THROWS_WITH_AS(worker.run(now()), "could not take back", Error);
}

TEST_CASE("live devices are picked while they are there") {
  LiveDevices live;
  Random random(7);
  CHECK_FALSE(live.pick(random).has_value());
  live.add("one");
  live.add("two");
  live.remove("one");
  CHECK(live.pick(random) == "two");
}

}  // namespace mqlab::workloads
