// Random reads of a file, against its known content. Where this machine forbids io_uring or direct reads, the cases
// say so and end.
#include <doctest/doctest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/error.h"
#include "io/read_job.h"
#include "scratch_file.h"

namespace mqlab::io {

namespace {

using std::chrono::milliseconds;

constexpr std::size_t kFileBytes = 1U << 20U;
constexpr std::uint32_t kBlockBytes = 4096;

// Runs `body`, or says why this machine cannot.
void where_possible(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kUnsupported) throw;
    REQUIRE_FALSE(error.remedy.empty());
    MESSAGE("skipped: ", std::string(error.what()), "; ", error.remedy);
  }
}

ReadJob job_on(const ScratchFile& file) {
  ReadJob job;
  job.paths = {file.path()};
  job.shape = {.depth = 16, .batch = 4, .reap = 4, .block_bytes = kBlockBytes};
  return job;
}

std::string message_of(const ReadJob& job) {
  try {
    run_read_job(job);
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kUnsupported) throw;
    CHECK_FALSE(error.remedy.empty());
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("every read brings the block that was asked for, from several threads") {
  const ScratchFile file(kFileBytes);
  where_possible([&] {
    ReadJob job = job_on(file);
    job.threads = 3;
    job.reads = 3000;
    job.pinned = true;
    std::atomic<std::uint64_t> checked{0};
    std::atomic<bool> right{true};
    job.check = [&](const DoneRead& read) {
      if (!has_known_content(read.offset_bytes, read.content) || read.offset_bytes % kBlockBytes != 0) right = false;
      ++checked;
    };
    const ReadOutcome outcome = run_read_job(job);
    CHECK(right);
    CHECK(outcome.reads >= 3000);
    CHECK(outcome.reads < 3000 + 3 * 16);  // a thread stops at the first look that finds its share
    CHECK(checked >= outcome.reads);       // what was in flight at the end is read too
    CHECK(outcome.bytes == outcome.reads * kBlockBytes);
    CHECK(outcome.latency_ns.count() == outcome.reads);
    CHECK(outcome.elapsed_ns > 0);
    CHECK(outcome.reads_per_s() == doctest::Approx(1e9 * double(outcome.reads) / double(outcome.elapsed_ns)));
    CHECK(outcome.ring.find("io_uring") == 0);
  });
}

TEST_CASE("the seed alone decides the blocks and their order of submission; they spread over the whole file") {
  const ScratchFile file(kFileBytes);
  const auto offsets_of = [&](std::uint64_t seed) {
    ReadJob job = job_on(file);
    job.shape.depth = job.shape.batch = job.shape.reap = 1;  // one at a time: completed as submitted
    job.reads = 2000;
    job.seed = seed;
    std::vector<std::uint64_t> offsets;
    job.check = [&](const DoneRead& read) { offsets.push_back(read.offset_bytes); };
    run_read_job(job);
    return offsets;
  };
  where_possible([&] {
    const std::vector<std::uint64_t> first = offsets_of(1);
    CHECK(first == offsets_of(1));
    CHECK(first != offsets_of(2));
    const std::set<std::uint64_t> blocks(first.begin(), first.end());
    CHECK(blocks.size() >= kFileBytes / kBlockBytes - 2);  // of 256 blocks 2000 draws miss 0.1
  });
}

TEST_CASE("batches go to the files in turn") {
  const ScratchFile one(kFileBytes);
  const ScratchFile other(kFileBytes / 2);
  where_possible([&] {
    ReadJob job = job_on(one);
    job.paths.push_back(other.path());
    job.reads = 2000;
    std::vector<std::uint64_t> reads(2);
    bool right = true;
    job.check = [&](const DoneRead& read) {
      ++reads[read.file];
      right = right && has_known_content(read.offset_bytes, read.content);
      right = right && (read.file == 0 || read.offset_bytes < kFileBytes / 2);
    };
    run_read_job(job);
    CHECK(right);
    CHECK(reads[0] > 900);
    CHECK(reads[1] > 900);
  });
}

TEST_CASE("a steady state is submitted in whole batches, and a warm-up is not counted") {
  const ScratchFile file(kFileBytes);
  where_possible([&] {
    ReadJob job = job_on(file);
    job.warmup_reads = 500;
    job.reads = 4000;
    std::uint64_t completed = 0;
    job.check = [&](const DoneRead&) { ++completed; };
    const ReadOutcome outcome = run_read_job(job);
    CHECK(completed >= 500 + outcome.reads);
    CHECK(outcome.submissions >= outcome.reads / 4 - 4);
    CHECK(outcome.submissions <= outcome.reads);
  });
}

TEST_CASE("a pinned job leaves the caller's thread where it may run") {
  const ScratchFile file(kFileBytes);
  cpu_set_t before;
  cpu_set_t after;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  where_possible([&] {
    ReadJob job = job_on(file);
    job.threads = 2;
    job.pinned = true;
    job.reads = 100;
    run_read_job(job);
    REQUIRE(sched_getaffinity(0, sizeof after, &after) == 0);
    CHECK(CPU_EQUAL(&before, &after));
  });
}

TEST_CASE("a job of a given time ends at it, and its elapsed time is the true one") {
  const ScratchFile file(kFileBytes);
  where_possible([&] {
    ReadJob job = job_on(file);
    job.duration = milliseconds(50);
    const ReadOutcome outcome = run_read_job(job);
    CHECK(outcome.elapsed_ns >= 50'000'000);
    CHECK(outcome.elapsed_ns < 20'000'000'000);
    CHECK(outcome.reads > 0);
  });
}

TEST_CASE("a file that shrinks while it is read is an error that names place and size") {
  const ScratchFile file(kFileBytes);
  where_possible([&] {
    ReadJob job = job_on(file);
    job.reads = 100000;
    job.threads = 2;
    job.check = [&](const DoneRead&) { static_cast<void>(::truncate(file.path().c_str(), 512)); };
    const std::string message = message_of(job);
    CHECK(message.find("reading 4096 bytes of " + file.path() + " at ") == 0);
    CHECK(message.find(" gave only ") != std::string::npos);
  });
}

TEST_CASE("what cannot be read is refused by name before anything starts") {
  const ScratchFile file(kFileBytes);
  const ScratchFile small(512);
  where_possible([&] {
    ReadJob job = job_on(file);
    CHECK(message_of(job).find("a number of reads or a duration") != std::string::npos);
    job.reads = 1;
    job.shape.block_bytes = 1000;
    CHECK(message_of(job).find("cannot be read in blocks of 1000 bytes") != std::string::npos);
    job = job_on(small);
    job.reads = 1;
    CHECK(message_of(job).find("no whole block of 4096") != std::string::npos);
    job.paths = {"/nowhere/at/all"};
    CHECK(message_of(job).find("opening /nowhere/at/all for direct reads: No such file") == 0);
    job.paths = {"/dev/null"};
    CHECK(message_of(job).find("/dev/null is neither a file nor a block device") == 0);
    job.paths = {};
    CHECK(message_of(job).find("a reader needs a file") == 0);
  });
}

TEST_CASE("a job is cancelled between two looks") {
  const ScratchFile file(kFileBytes);
  where_possible([&] {
    ReadJob job = job_on(file);
    job.duration = std::chrono::hours(1);
    job.threads = 2;
    job.check = [](const DoneRead&) { request_cancel(); };
    const CancelScope scope;
    CHECK_THROWS_AS(run_read_job(job), Cancelled);
  });
}

}  // namespace mqlab::io
