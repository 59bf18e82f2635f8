#include <doctest/doctest.h>

#include <string>

#include "agent/guest.h"
#include "agent/runner.h"
#include "base/error.h"

namespace mqlab::agent {

namespace {

using Json = nlohmann::json;

Json jobs_of(const Json& jobs) { return run_jobs({{"format", kFormat}, {"jobs", jobs}}).at("jobs"); }

}  // namespace

TEST_CASE("each job has an outcome, and a failed one does not end the others") {
  const Json draws = {{"workload", "random_draws"}, {"spec", {{"params", {{"draws", 5}, {"kept", 5}}}}}};
  const Json wrong = {{"workload", "random_draws"}, {"spec", {{"params", {{"draws", -1}}}}}};
  const Json unknown = {{"workload", "no_such"}, {"spec", Json::object()}};
  const Json outcomes = jobs_of({wrong, unknown, draws});
  REQUIRE(outcomes.size() == 3);
  CHECK(outcomes[0]["ok"] == false);
  CHECK(outcomes[0]["error"]["kind"] == "usage");
  CHECK(outcomes[1]["error"]["message"].get<std::string>().find("no_such") != std::string::npos);
  CHECK(outcomes[2]["ok"] == true);
  CHECK(outcomes[2]["samples"]["draw_count"].size() == 5);
}

TEST_CASE("the result says what machine it comes from") {
  const Json machine = run_jobs({{"format", kFormat}, {"jobs", Json::array()}}).at("machine");
  CHECK_FALSE(machine.at("release").get<std::string>().empty());
  CHECK(machine.at("cpus").get<int>() >= 1);
  CHECK(machine.at("memory_bytes").get<std::uint64_t>() > 0);
}

TEST_CASE("what is no spec document is refused with the form that is") {
  for (const char* text :
       {"", "[]", "{}", R"({"format": "mqlab.agent/1"})", R"({"format": "mqlab.agent/1", "jobs": [{"workload": "x"}]})",
        R"({"format": "other/1", "jobs": []})"}) {
    CAPTURE(text);
    try {
      parse_spec(text);
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::kUsage);
      CHECK(error.remedy.find("jobs") != std::string::npos);
    }
  }
}

TEST_CASE("text for a frame is ASCII in one line, whatever a kernel log holds") {
  const std::string text = to_text({{"text", "two\nlines, \xc3\xa9 and a broken byte \xff"}});
  for (const char c : text) CHECK((c >= ' ' && c <= '~'));
}

TEST_CASE("a process that is not a guest's init does not act as one") { CHECK_FALSE(is_guest_init()); }

}  // namespace mqlab::agent
