#include <doctest/doctest.h>

#include <string>

#include "agent/quiet.h"
#include "base/error.h"

namespace mqlab::agent {

namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// A machine that is busy for a while and idle from then on; time passes only by sleeping.
class FakeMachine {
 public:
  explicit FakeMachine(milliseconds busy) : busy_(busy) {}

  QuietMachine parts() {
    return {[this] { return stat(); }, [this](milliseconds time) { now_ += time; },
            [this] { return nanoseconds(now_); }};
  }

 private:
  std::string stat() const {
    const auto worked = std::min(now_, busy_).count();
    return "cpu  " + std::to_string(worked) + " 0 0 " + std::to_string(now_.count() - worked) + " 0 0 0 0 0 0\n";
  }

  milliseconds busy_;
  milliseconds now_{0};
};

}  // namespace

TEST_CASE("CPU times are the sum of the first eight fields; idle and iowait are idle") {
  const auto times = parse_cpu_times("cpu  1 2 3 40 50 6 7 8 9 10\ncpu0 1 1 1 1\n");
  REQUIRE(times.has_value());
  CHECK(times->total == 117);
  CHECK(times->idle == 90);
  CHECK_FALSE(parse_cpu_times("intr 1 2").has_value());
  CHECK_FALSE(parse_cpu_times("cpu  1 2").has_value());
  CHECK_FALSE(parse_cpu_times("").has_value());
}

TEST_CASE("the wait goes on while the machine is busy and says how long it was") {
  FakeMachine machine(milliseconds(3000));
  const QuietOutcome outcome = wait_until_quiet({}, machine.parts());
  CHECK(outcome.quiet);
  CHECK(outcome.waited == milliseconds(3000 + 5 * 200));
  CHECK(outcome.idle_share == 1.0);
}

TEST_CASE("an idle machine is believed after the windows asked for") {
  FakeMachine machine(milliseconds(0));
  const QuietOutcome outcome = wait_until_quiet({.windows = 3}, machine.parts());
  CHECK(outcome.quiet);
  CHECK(outcome.waited == milliseconds(600));
}

TEST_CASE("a machine that never rests ends at the limit, not quiet") {
  FakeMachine machine(milliseconds(1000000));
  const QuietOutcome outcome = wait_until_quiet({.limit = milliseconds(2000)}, machine.parts());
  CHECK_FALSE(outcome.quiet);
  CHECK(outcome.waited == milliseconds(2000));
  CHECK(outcome.idle_share == 0.0);
}

TEST_CASE("without CPU times there is no wait but an error") {
  FakeMachine machine(milliseconds(0));
  QuietMachine parts = machine.parts();
  parts.read_proc_stat = [] { return std::string(); };
  CHECK_THROWS_AS(wait_until_quiet({}, parts), Error);
}

}  // namespace mqlab::agent
