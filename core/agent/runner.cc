#include "agent/runner.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <thread>

#include "agent/marks.h"
#include "agent/symbols.h"
#include "base/error.h"
#include "base/text_file.h"
#include "workloads/workload.h"

namespace mqlab::agent {
namespace {

using Json = nlohmann::json;

Json run_job(const Json& job) {
  const auto name = job.at("workload").get<std::string>();
  Json outcome = {{"workload", name}};
  mqlab_job_begin();
  try {
    Json result = workloads::run_workload(name, job.at("spec"));
    outcome["ok"] = true;
    outcome.update(result);
  } catch (const std::exception& error) {
    outcome["ok"] = false;
    outcome["error"] = describe_exception(error);
  }
  return outcome;
}

[[noreturn]] void throw_bad_spec(const std::string& what) {
  throw Error(ErrorKind::kUsage, "the spec is not a " + std::string(kFormat) + " document: " + what,
              "give {\"format\": \"mqlab.agent/1\", \"jobs\": [{\"workload\": NAME, \"spec\": {...}}]}");
}

}  // namespace

Json parse_spec(const std::string& text) {
  Json spec = Json::parse(text, nullptr, false);
  if (spec.is_discarded() || !spec.is_object()) throw_bad_spec("it is no JSON object");
  if (spec.value("format", Json()) != kFormat) throw_bad_spec("its format is another");
  if (!spec.contains("jobs") || !spec["jobs"].is_array()) throw_bad_spec("it has no list of jobs");
  for (const Json& job : spec["jobs"]) {
    if (!job.is_object() || !job.contains("workload") || !job["workload"].is_string() || !job.contains("spec") ||
        !job["spec"].is_object()) {
      throw_bad_spec("a job has no workload or no spec");
    }
  }
  return spec;
}

Json run_jobs(const Json& spec) {
  Json jobs = Json::array();
  for (const Json& job : spec.at("jobs")) jobs.push_back(run_job(job));
  return {{"format", kFormat}, {"machine", describe_machine()}, {"jobs", jobs}};
}

Json describe_machine() {
  utsname name{};
  uname(&name);
  const auto pages = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
  const auto page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return {{"release", name.release},
          {"version", name.version},
          {"machine", name.machine},
          {"cmdline", first_line_of("/proc/cmdline")},
          {"cpus", std::thread::hardware_concurrency()},
          {"text_address", text_address()},
          {"memory_bytes", pages * page_bytes},
          {"clocksource", first_line_of("/sys/devices/system/clocksource/clocksource0/current_clocksource")}};
}

Json describe_exception(const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) {
    return {{"kind", std::string(to_string(known->kind))},
            {"message", known->what()},
            {"remedy", known->remedy},
            {"errno", known->os_errno}};
  }
  return {{"kind", std::string(to_string(ErrorKind::kInternal))},
          {"message", error.what()},
          {"remedy", "report this with the spec"},
          {"errno", 0}};
}

std::string to_text(const Json& document) { return document.dump(-1, ' ', true, Json::error_handler_t::replace); }

}  // namespace mqlab::agent
