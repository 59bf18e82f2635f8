#include "platform/native/thread.h"

#include <pthread.h>
#include <sched.h>

#include "base/random.h"

namespace mqlab::native {

constinit thread_local unsigned current_slot = 0;

unsigned nr_slots() {
  static const unsigned count = std::max(1U, std::thread::hardware_concurrency());
  return count;
}

std::uint64_t random_below(std::uint64_t bound) {
  static std::atomic<std::uint64_t> next_seed{1};
  thread_local Random random(next_seed.fetch_add(1, std::memory_order_relaxed));
  return random.below(bound);
}

namespace {

void bind_to(unsigned cpu) {
  current_slot = cpu % nr_slots();
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(current_slot, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace

Thread spawn(const platform::SpawnOptions& options, std::function<void()> body) {
  static std::atomic<unsigned> spawned{0};
  Thread handle;
  auto start = [options, body = std::move(body)] {
    pthread_setname_np(pthread_self(), options.name.substr(0, 15).c_str());
    if (options.cpu >= 0)
      bind_to(static_cast<unsigned>(options.cpu));
    else
      current_slot = spawned.fetch_add(1, std::memory_order_relaxed) % nr_slots();
    body();
  };
  handle.thread_ = std::make_shared<std::jthread>(std::move(start));
  if (options.daemon) handle.thread_->detach();
  return handle;
}

}  // namespace mqlab::native
