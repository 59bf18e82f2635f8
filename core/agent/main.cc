// mqlab-agent: runs workloads where no Python is. As a program it takes a spec document and prints the
// result; as init of a guest (guest.h) it finds the spec in its initramfs and reports over the serial line.
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "agent/guest.h"
#include "agent/marks.h"
#include "agent/runner.h"
#include "base/cancel.h"
#include "base/error.h"
#include "workloads/workload.h"

namespace {

using Json = nlohmann::json;

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kBadUsage = 2;
constexpr int kNotPossible = 4;
constexpr int kInterrupted = 130;

constexpr const char* kUsage =
    "usage: mqlab-agent run SPEC.json    run the jobs of a spec, print the result as JSON\n"
    "       mqlab-agent list             print the workloads it knows as JSON\n"
    "       mqlab-agent marks            print where an observer of its guest looks, as JSON\n";

volatile std::sig_atomic_t interrupted = 0;

extern "C" void on_interrupt(int) {
  interrupted = 1;
  mqlab::request_cancel();
}

int status_of(const Json& result) {
  if (interrupted != 0) return kInterrupted;
  bool failed = false;
  bool measured = false;
  for (const Json& job : result.at("jobs")) {
    if (job.at("ok") == true) {
      measured = true;
    } else if (job.at("error").at("kind") == "usage") {
      return kBadUsage;
    } else if (job.at("error").at("kind") != "unsupported") {
      failed = true;
    }
  }
  if (failed) return kFailed;
  return measured ? kDone : kNotPossible;
}

int run_file(const char* path) {
  std::ifstream file(path);
  if (!file) {
    std::fprintf(stderr, "mqlab-agent: cannot read %s\n%s", path, kUsage);
    return kBadUsage;
  }
  const Json spec = mqlab::agent::parse_spec({std::istreambuf_iterator<char>(file), {}});
  const Json result = mqlab::agent::run_jobs(spec);
  std::printf("%s\n", mqlab::agent::to_text(result).c_str());
  return status_of(result);
}

int list() {
  std::printf("%s\n", mqlab::agent::to_text(mqlab::workloads::describe_workloads()).c_str());
  return kDone;
}

int marks() {
  std::printf("%s\n", mqlab::agent::to_text(mqlab::agent::mark_addresses()).c_str());
  return kDone;
}

int run_as_program(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "run" && argc == 3) return run_file(argv[2]);
  if (command == "list" && argc == 2) return list();
  if (command == "marks" && argc == 2) return marks();
  std::fputs(kUsage, stderr);
  return kBadUsage;
}

}  // namespace

int main(int argc, char** argv) {
  if (mqlab::agent::is_guest_init()) mqlab::agent::run_as_guest_init();
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  try {
    return run_as_program(argc, argv);
  } catch (const mqlab::Error& error) {
    std::fprintf(stderr, "mqlab-agent: %s\n  %s\n", error.what(), error.remedy.c_str());
    return error.kind == mqlab::ErrorKind::kUsage ? kBadUsage : kFailed;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mqlab-agent: %s\n", error.what());
    return kFailed;
  }
}
