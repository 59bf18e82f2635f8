// Allocates and frees a given number of tags, for counting instructions (the difference of two runs under callgrind)
// and for running beside other allocators' drivers:
//
//   drive_tags POOL DEPTH THREADS BATCH TAGS     POOL: ours or mutex_bitmap
//
// Prints "ns_per_op X shortfalls N": the time that a thread takes to allocate and free one tag, and how often a batch
// was not whole.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "tag_pools.h"

namespace mqlab::bench {

namespace {

using Native = native::Platform;

struct Plan {
  unsigned depth, threads, batch;
  std::uint64_t tags;
};

template <class Pool>
[[gnu::noinline]] std::uint64_t run_loop(Pool& pool, unsigned batch, std::uint64_t tags) {
  std::uint32_t held[64];
  std::uint64_t shortfalls = 0;
  for (std::uint64_t done = 0; done < tags;) {
    const unsigned got = pool.get(held, batch);
    shortfalls += got < batch ? 1 : 0;
    if (got == 0) continue;
    pool.put(held, got);
    done += got;
  }
  return shortfalls;
}

template <class Pool>
int run(const Plan& plan) {
  Pool pool(plan.depth);
  std::vector<double> seconds(plan.threads);
  std::atomic<std::uint64_t> shortfalls{0};
  const auto work = [&](unsigned index) {
    const auto start = std::chrono::steady_clock::now();
    shortfalls += run_loop(pool, plan.batch, plan.tags);
    seconds[index] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::vector<Native::thread> threads;
  for (unsigned i = 1; i < plan.threads; ++i)
    threads.push_back(Native::spawn({.cpu = static_cast<int>(i)}, [&work, i] { work(i); }));
  work(0);
  for (auto& thread : threads) Native::join(thread);
  double sum = 0;
  for (const double s : seconds) sum += s;
  std::printf("ns_per_op %.4f shortfalls %llu\n", sum * 1e9 / plan.threads / static_cast<double>(plan.tags),
              static_cast<unsigned long long>(shortfalls.load()));
  return 0;
}

int usage() {
  std::fprintf(stderr, "usage: drive_tags ours|mutex_bitmap DEPTH THREADS BATCH TAGS   (BATCH: 1 to 64)\n");
  return 2;
}

}  // namespace

}  // namespace mqlab::bench

int main(int argc, char** argv) {
  using namespace mqlab::bench;
  if (argc != 6) return usage();
  const auto number = [&](int i) { return std::strtoull(argv[i], nullptr, 10); };
  const Plan plan{static_cast<unsigned>(number(2)), static_cast<unsigned>(number(3)), static_cast<unsigned>(number(4)),
                  number(5)};
  if (plan.depth == 0 || plan.threads == 0 || plan.batch == 0 || plan.batch > 64) return usage();
  if (std::strcmp(argv[1], "mutex_bitmap") == 0) return run<MutexBitmap>(plan);
  return run<OurTags>(plan);
}
