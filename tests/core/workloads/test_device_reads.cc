// The workloads that read devices, as far as a machine without a spare device can try them: on a file, and in what they
// refuse.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/error.h"
#include "workloads/workload.h"

namespace mqlab::workloads {

namespace {

Json with_params(const Json& params) { return {{"target", "device"}, {"params", params}}; }

Error error_of(const char* workload, const Json& params) {
  try {
    run_workload(workload, with_params(params));
  } catch (const Error& error) {
    CHECK_FALSE(error.remedy.empty());
    return error;
  }
  return {ErrorKind::kInternal, "nothing was thrown"};
}

class EmptyFile {
 public:
  explicit EmptyFile(off_t size_bytes) {
    const int fd = mkstemp(path_.data());
    REQUIRE(fd >= 0);
    REQUIRE(ftruncate(fd, size_bytes) == 0);
    close(fd);
  }
  ~EmptyFile() { unlink(path_.c_str()); }
  EmptyFile(const EmptyFile&) = delete;
  EmptyFile& operator=(const EmptyFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/var/tmp/mqlab-test-XXXXXX";
};

}  // namespace

TEST_CASE("random_reads tells throughput, latency and what its window held") {
  const EmptyFile file(1 << 20);
  Json result;
  try {
    result = run_workload(
        "random_reads",
        with_params(
            {{"device", file.path()}, {"threads", 2}, {"depth", 8}, {"batch", 4}, {"ios", 2000}, {"seconds", 0}}));
  } catch (const Error& error) {
    REQUIRE(error.kind == ErrorKind::kUnsupported);
    MESSAGE("skipped: ", std::string(error.what()), "; ", error.remedy);
    return;
  }
  const Json& samples = result.at("samples");
  CHECK(result.at("counters").at("window_operations") >= 2000);
  CHECK(result.at("counters").at("submissions") >= 500);
  CHECK(samples.at("elapsed_ns")[0] > 0);
  const double reads = result.at("counters").at("window_operations").get<double>();
  CHECK(samples.at("reads_per_s")[0].get<double>() ==
        doctest::Approx(reads / samples.at("elapsed_ns")[0].get<double>() * 1e9));
  CHECK(samples.at("mb_per_s")[0].get<double>() ==
        doctest::Approx(samples.at("reads_per_s")[0].get<double>() * 4096 / 1e6));
  CHECK(samples.at("latency_p50_ns")[0] <= samples.at("latency_p99_ns")[0]);
  CHECK(samples.at("latency_p99_ns")[0] <= samples.at("latency_max_ns")[0]);
}

TEST_CASE("what cannot be measured is refused before anything is made") {
  CHECK(error_of("random_reads", Json::object()).kind == ErrorKind::kUsage);
  const Error missing = error_of("random_reads", {{"device", "/nowhere/at/all"}});
  CHECK(missing.kind == ErrorKind::kUsage);
  CHECK(std::string(missing.what()).find("/nowhere/at/all") != std::string::npos);
  CHECK(error_of("random_reads", {{"device", 7}}).kind == ErrorKind::kUsage);
  const Error stuck = error_of("ublk_random_reads", {{"held_back", 100}});
  CHECK(stuck.kind == ErrorKind::kUsage);
  CHECK(std::string(stuck.what()).find("holds back 100 of 128") != std::string::npos);
}

}  // namespace mqlab::workloads
