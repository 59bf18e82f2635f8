// Preloaded into QEMU for a guest whose clock counts instructions (LD_PRELOAD): makes two boots the same.
//
// With -icount sleep=off one thread executes all CPUs of the guest. When all are halted it waits on a condition,
// and QEMU's main thread moves the clock to the next timer. The main thread looks whether all are halted each time
// that its poll returns, and its own clock step makes the poll return once more. If it looks after the last CPU has
// halted and before the other thread has booked the instructions executed until then, it skips too far, and the
// guest takes another course. How often that happens depends on how busy the machine is.
//
// So here the main thread's poll returns only while the thread of the CPUs waits on its condition: what was executed
// is booked then, and nothing moves. Who wakes it ends that at once, not the woken thread, which may come to run
// only later. A thread of CPUs that works for long without waiting (a guest that is switched
// off never halts) is left to it after a while, counted in its own CPU time, so that a busy machine plays no part.
//
// Thread safety: called by all of QEMU's threads; the state is atomic.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace {

// QEMU names its threads, with `-name debug-threads=on`. This is the one that executes all CPUs in turn.
constexpr const char* kCpuThread = "ALL CPUs/TCG";
constexpr std::uint32_t kWorks = 0;
constexpr std::uint32_t kWaits = 1;
constexpr std::int64_t kNsPerMs = 1000000;
constexpr std::int64_t kNsPerS = 1000 * kNsPerMs;
// Far longer than it takes to book what was executed, and short enough for the end of a guest.
constexpr std::int64_t kPatienceNs = 100 * kNsPerMs;
constexpr std::int64_t kLookAgainNs = 5 * kNsPerMs;
constexpr int kBlockedLooks = 4;

std::atomic<std::uint32_t> cpus_state{kWorks};
std::atomic<const pthread_cond_t*> waited_for{nullptr};
// 0 until the thread has been met.
std::atomic<pid_t> cpus_thread{0};
std::atomic<clockid_t> cpus_clock{0};

template <class F>
F next(const char* name, const char* version) {
  void* found = dlvsym(RTLD_NEXT, name, version);
  return reinterpret_cast<F>(found != nullptr ? found : dlsym(RTLD_NEXT, name));
}

bool executes_cpus() {
  thread_local const bool answer = [] {
    std::array<char, 16> name{};
    pthread_getname_np(pthread_self(), name.data(), name.size());
    return std::strcmp(name.data(), kCpuThread) == 0;
  }();
  return answer;
}

bool is_main_thread() { return getpid() == static_cast<pid_t>(syscall(SYS_gettid)); }

// Asleep, but not on the condition: it waits for a lock that the main thread holds, which so must not wait for it.
// (Nested polls are made with the lock held, the main loop's own one is not.)
bool cpus_are_blocked() {
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/self/task/%d/stat", cpus_thread.load());
  const int file = open(path.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return true;
  std::array<char, 256> text{};
  const ssize_t size = read(file, text.data(), text.size() - 1);
  close(file);
  const char* const end = size > 0 ? std::strrchr(text.data(), ')') : nullptr;
  return end == nullptr || end[2] == 'S';
}

std::int64_t cpu_time_ns() {
  timespec time{};
  clock_gettime(cpus_clock.load(), &time);
  return time.tv_sec * kNsPerS + time.tv_nsec;
}

void tell(std::uint32_t state) {
  cpus_state.store(state);
  if (state == kWaits) syscall(SYS_futex, &cpus_state, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void wait_for_cpus() {
  if (cpus_clock.load() == 0) return;
  const std::int64_t begin_ns = cpu_time_ns();
  std::int64_t before_ns = -1;
  int blocked = 0;
  while (cpus_state.load() != kWaits && blocked < kBlockedLooks) {
    const std::int64_t now_ns = cpu_time_ns();
    if (now_ns - begin_ns >= kPatienceNs) return;
    blocked = now_ns == before_ns && cpus_are_blocked() ? blocked + 1 : 0;
    before_ns = now_ns;
    const timespec limit{0, kLookAgainNs};
    syscall(SYS_futex, &cpus_state, FUTEX_WAIT_PRIVATE, kWorks, &limit, nullptr, 0);
  }
}

}  // namespace

// The system's headers name parameters with names that are reserved for them.
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
extern "C" [[gnu::visibility("default")]] int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  static const auto wait = next<decltype(&pthread_cond_wait)>("pthread_cond_wait", "GLIBC_2.3.2");
  if (!executes_cpus()) return wait(condition, mutex);
  if (cpus_clock.load() == 0) {
    clockid_t clock{};
    pthread_getcpuclockid(pthread_self(), &clock);
    cpus_thread.store(static_cast<pid_t>(syscall(SYS_gettid)));
    cpus_clock.store(clock);
  }
  waited_for.store(condition);
  tell(kWaits);
  const int result = wait(condition, mutex);
  tell(kWorks);
  return result;
}

extern "C" [[gnu::visibility("default")]] int pthread_cond_broadcast(pthread_cond_t* condition) {
  static const auto wake = next<decltype(&pthread_cond_broadcast)>("pthread_cond_broadcast", "GLIBC_2.3.2");
  if (condition == waited_for.load()) tell(kWorks);
  return wake(condition);
}

extern "C" [[gnu::visibility("default")]] int pthread_cond_signal(pthread_cond_t* condition) {
  static const auto wake = next<decltype(&pthread_cond_signal)>("pthread_cond_signal", "GLIBC_2.3.2");
  if (condition == waited_for.load()) tell(kWorks);
  return wake(condition);
}

extern "C" [[gnu::visibility("default")]] int ppoll(pollfd* files, nfds_t count, const timespec* timeout,
                                                    const sigset_t* mask) {
  static const auto poll_next = next<decltype(&ppoll)>("ppoll", "GLIBC_2.4");
  const int result = poll_next(files, count, timeout, mask);
  if (is_main_thread()) wait_for_cpus();
  return result;
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
