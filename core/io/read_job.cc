#include "io/read_job.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <exception>
#include <memory>
#include <system_error>
#include <thread>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "base/window.h"

namespace mqlab::io {
namespace {

void check_job(const ReadJob& job) {
  if (job.threads == 0 || (job.reads == 0 && !job.duration)) {
    throw Error(ErrorKind::kUsage, "a read job needs a thread, and a number of reads or a duration to end at",
                "give them");
  }
}

// The calling thread on one of the CPUs that it may use, and on all of them again afterwards: the thread of the caller
// is one of a job's, and what it starts later inherits where it may run. Does nothing where the kernel refuses: where
// threads run is no part of the result's truth.
class CpuPin {
 public:
  explicit CpuPin(unsigned turn) {
    CPU_ZERO(&allowed_);
    if (sched_getaffinity(0, sizeof allowed_, &allowed_) != 0) return;
    unsigned skip = turn % static_cast<unsigned>(CPU_COUNT(&allowed_));
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &allowed_) || skip-- > 0) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      pinned_ = sched_setaffinity(0, sizeof one, &one) == 0;
      return;
    }
  }
  ~CpuPin() {
    if (pinned_) sched_setaffinity(0, sizeof allowed_, &allowed_);
  }
  CpuPin(const CpuPin&) = delete;
  CpuPin& operator=(const CpuPin&) = delete;

 private:
  cpu_set_t allowed_{};
  bool pinned_ = false;
};

class Job {
 public:
  explicit Job(const ReadJob& job)
      : job_(job),
        share_((job.reads + job.threads - 1) / job.threads),
        results_(job.threads),
        ready_(job.threads, Open{this}),
        over_(job.threads, Close{this}) {
    for (const std::string& path : job.paths) files_.emplace_back(path);
  }

  ReadOutcome run() {
    Random seeds(job_.seed);
    {
      // A job of one thread needs no other: nothing but its reads is measured.
      std::vector<std::jthread> others;
      start(others, seeds);
      work(0, seeds.split());
    }
    return outcome();
  }

 private:
  struct Result {
    std::exception_ptr failure;
    ReadCounts counts;
    std::uint64_t end_ns = 0;
    std::string ring;
  };
  struct Open {
    Job* job;
    void operator()() noexcept {
      if (job->job_.marks_window) mqlab_window_begin();
      job->begin_ns_ = monotonic_ns();
    }
  };
  struct Close {
    Job* job;
    void operator()() noexcept {
      if (job->job_.marks_window) mqlab_window_end();
    }
  };

  void start(std::vector<std::jthread>& others, Random& seeds) {
    try {
      for (unsigned t = 1; t < job_.threads; ++t) {
        others.emplace_back([this, t, random = seeds.split()] { work(t, random); });
      }
    } catch (const std::system_error& error) {
      results_.front().failure = std::make_exception_ptr(
          system_error("starting thread " + std::to_string(others.size() + 1) + " of " + std::to_string(job_.threads),
                       error.code().value(), "ask for fewer threads"));
      stopping_.store(true, std::memory_order_relaxed);
      // Nobody may wait for those that there are not.
      for (std::size_t missing = others.size() + 1; missing < job_.threads; ++missing) {
        ready_.arrive_and_drop();
        over_.arrive_and_drop();
      }
    }
  }

  // Every thread arrives at both barriers, also one that failed: the others wait there.
  void work(unsigned number, Random random) {
    Result& result = results_[number];
    std::unique_ptr<RandomReader> reader;
    std::optional<CpuPin> pin;
    guarded(result, [&] {
      if (job_.pinned) pin.emplace(number);
      reader = std::make_unique<RandomReader>(files_, job_.shape, random, job_.check);
      warm_up(*reader);
    });
    ready_.arrive_and_wait();
    guarded(result, [&] {
      if (reader) measure(*reader, result);
    });
    over_.arrive_and_wait();
    guarded(result, [&] {
      if (reader && !result.failure) reader->drain();
    });
  }

  template <class F>
  void guarded(Result& result, F&& step) {
    try {
      step();
    } catch (...) {
      if (!result.failure) result.failure = std::current_exception();
      stopping_.store(true, std::memory_order_relaxed);
    }
  }

  bool is_stopping() const { return stopping_.load(std::memory_order_relaxed); }

  void warm_up(RandomReader& reader) {
    while (reader.counts().reads < job_.warmup_reads && !is_stopping()) {
      throw_if_cancelled();
      reader.turn();
    }
  }

  void measure(RandomReader& reader, Result& result) {
    reader.start_counting();
    const std::uint64_t limit_ns =
        job_.duration ? begin_ns_ + static_cast<std::uint64_t>(job_.duration->count()) : ~std::uint64_t{0};
    const std::uint64_t enough = job_.reads == 0 ? ~std::uint64_t{0} : share_;
    result.end_ns = begin_ns_;
    while (reader.counts().reads < enough && result.end_ns < limit_ns && !is_stopping()) {
      throw_if_cancelled();
      reader.turn();
      result.end_ns = monotonic_ns();
    }
    result.counts = reader.counts();
    result.ring = reader.describe();
  }

  ReadOutcome outcome() const {
    ReadOutcome outcome;
    std::uint64_t end_ns = begin_ns_;
    for (const Result& result : results_) {
      if (result.failure) std::rethrow_exception(result.failure);
      outcome.reads += result.counts.reads;
      outcome.submissions += result.counts.submissions;
      outcome.latency_ns.merge(result.counts.latency_ns);
      end_ns = std::max(end_ns, result.end_ns);
    }
    outcome.bytes = outcome.reads * job_.shape.block_bytes;
    outcome.elapsed_ns = end_ns - begin_ns_;
    outcome.ring = results_.front().ring;
    return outcome;
  }

  const ReadJob& job_;
  std::uint64_t share_;
  std::vector<BlockFile> files_;
  std::vector<Result> results_;
  std::barrier<Open> ready_;
  std::barrier<Close> over_;
  std::atomic<bool> stopping_{false};
  std::uint64_t begin_ns_ = 0;  // written before the threads pass `ready_`
};

}  // namespace

double ReadOutcome::reads_per_s() const noexcept { return per_second(reads, elapsed_ns); }
double ReadOutcome::mb_per_s() const noexcept { return mb_per_second(bytes, elapsed_ns); }

ReadOutcome run_read_job(const ReadJob& job) {
  check_job(job);
  return Job(job).run();
}

}  // namespace mqlab::io
