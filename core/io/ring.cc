#include "io/ring.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/error.h"
#include "io/uring_abi.h"

namespace mqlab::io {
namespace {

// The kernel and this process share these words; each side stores its own
// index with release after the data it covers, and loads the other's with
// acquire before it touches that data.
std::uint32_t load_acquire(const std::uint32_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

void store_release(std::uint32_t* word, std::uint32_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }

[[noreturn]] void throw_setup_error(int err) {
  const std::string what = std::string("io_uring_setup was answered with ") + std::strerror(err);
  switch (err) {
    case ENOSYS:
      throw Error(ErrorKind::kUnsupported, what,
                  "use a kernel with CONFIG_IO_URING, and a sandbox that allows io_uring", err);
    case EPERM:
      throw Error(ErrorKind::kUnsupported, what,
                  "set sysctl kernel.io_uring_disabled=0, or allow io_uring in the seccomp profile", err);
    case EINVAL:
      throw Error(ErrorKind::kUnsupported, what,
                  "use a kernel that knows the ring's flags (128-byte entries need 5.19)", err);
    case ENOMEM:
      throw Error(ErrorKind::kSystem, what, "raise RLIMIT_MEMLOCK (ulimit -l) or free memory", err);
    default:
      throw Error(ErrorKind::kSystem, what, "see errno in io_uring_setup(2)", err);
  }
}

class Mapping {
 public:
  Mapping(int fd, std::size_t size, std::uint64_t offset) : size_(size) {
    address_ = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, static_cast<off_t>(offset));
    if (address_ == MAP_FAILED) {
      throw Error(ErrorKind::kSystem,
                  std::string("mapping an io_uring queue was answered with ") + std::strerror(errno),
                  "raise RLIMIT_MEMLOCK (ulimit -l) or free memory", errno);
    }
  }
  ~Mapping() { munmap(address_, size_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  template <class T>
  T* at(std::uint32_t offset) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(address_) + offset);
  }

 private:
  void* address_;
  std::size_t size_;
};

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

int setup(unsigned entries, io_uring_params& params) {
  const long fd = syscall(__NR_io_uring_setup, entries, &params);
  if (fd < 0) throw_setup_error(errno);
  return static_cast<int>(fd);
}

io_uring_params params_of(const RingOptions& options) {
  io_uring_params params{};
  if (options.sqe128) params.flags |= kSetupSqe128;
  return params;
}

}  // namespace

// The order of members is the order of construction, and the reverse of
// teardown: queues are unmapped before the descriptor closes.
struct Ring::Mapped {
  explicit Mapped(const RingOptions& options)
      : sqe_size(options.sqe128 ? 2 * sizeof(io_uring_sqe) : sizeof(io_uring_sqe)),
        params(params_of(options)),
        fd(setup(options.entries, params)),
        sq(fd.get(), params.sq_off.array + params.sq_entries * sizeof(std::uint32_t), IORING_OFF_SQ_RING),
        cq(fd.get(), params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING),
        sqes(fd.get(), params.sq_entries * sqe_size, IORING_OFF_SQES),
        local_tail(*sq.at<std::uint32_t>(params.sq_off.tail)) {
    // Entry i always stands in slot i, so the index array never changes.
    auto* array = sq.at<std::uint32_t>(params.sq_off.array);
    for (std::uint32_t i = 0; i < params.sq_entries; ++i) array[i] = i;
  }

  std::uint32_t pending() const { return local_tail - load_acquire(sq.at<std::uint32_t>(params.sq_off.head)); }

  std::size_t sqe_size;
  io_uring_params params;
  Descriptor fd;
  Mapping sq;
  Mapping cq;
  Mapping sqes;
  std::uint32_t local_tail;
};

Ring::Ring(const RingOptions& options) : mapped_(std::make_unique<Mapped>(options)) {}
Ring::~Ring() = default;
Ring::Ring(Ring&&) noexcept = default;
Ring& Ring::operator=(Ring&&) noexcept = default;

io_uring_sqe* Ring::next_sqe() {
  Mapped& m = *mapped_;
  if (m.pending() == m.params.sq_entries) return nullptr;
  const std::uint32_t slot = m.local_tail & (m.params.sq_entries - 1);
  auto* sqe = m.sqes.at<io_uring_sqe>(slot * static_cast<std::uint32_t>(m.sqe_size));
  std::memset(static_cast<void*>(sqe), 0, m.sqe_size);
  ++m.local_tail;
  return sqe;
}

std::byte* Ring::command_area(io_uring_sqe* sqe) {
  // The area begins where the union of the address fields does, 48 bytes in.
  return reinterpret_cast<std::byte*>(sqe) + kCommandAreaOffset;
}

std::optional<std::array<std::uint32_t, 2>> Ring::worker_limits() const {
  std::array<std::uint32_t, 2> limits{};  // zeros ask and change nothing
  const long done = syscall(__NR_io_uring_register, mapped_->fd.get(), kRegisterWorkerLimits, limits.data(), 2U);
  if (done < 0) return std::nullopt;
  return limits;
}

void Ring::submit() {
  Mapped& m = *mapped_;
  store_release(m.sq.at<std::uint32_t>(m.params.sq_off.tail), m.local_tail);
  while (const std::uint32_t count = m.pending()) {
    const long done = syscall(__NR_io_uring_enter, m.fd.get(), count, 0U, 0U, nullptr, 0UL);
    if (done < 0 && errno != EINTR && errno != EAGAIN) {
      throw Error(ErrorKind::kSystem, std::string("io_uring_enter was answered with ") + std::strerror(errno),
                  "see errno in io_uring_enter(2)", errno);
    }
  }
}

std::optional<Completion> Ring::try_pop() {
  Mapped& m = *mapped_;
  auto* head = m.cq.at<std::uint32_t>(m.params.cq_off.head);
  const std::uint32_t at = *head;
  if (at == load_acquire(m.cq.at<std::uint32_t>(m.params.cq_off.tail))) return std::nullopt;
  const auto* cqes = m.cq.at<io_uring_cqe>(m.params.cq_off.cqes);
  const io_uring_cqe& cqe = cqes[at & (m.params.cq_entries - 1)];
  const Completion completion{cqe.user_data, cqe.res};
  // Release: the kernel may overwrite the slot once it sees the new head.
  store_release(head, at + 1);
  return completion;
}

std::optional<Completion> Ring::wait(std::chrono::nanoseconds limit) {
  Mapped& m = *mapped_;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  store_release(m.sq.at<std::uint32_t>(m.params.sq_off.tail), m.local_tail);
  for (;;) {
    if (m.pending() == 0) {
      if (auto ready = try_pop()) return ready;
    }
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds::zero()) return try_pop();
    const auto left_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    struct {
      std::int64_t seconds;
      std::int64_t nanoseconds;
    } timeout{left_ns / 1000000000, left_ns % 1000000000};
    io_uring_getevents_arg arg{};
    arg.ts = reinterpret_cast<std::uint64_t>(&timeout);
    const long done = syscall(__NR_io_uring_enter, m.fd.get(), m.pending(), 1U,
                              IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &arg, sizeof arg);
    if (done < 0 && errno != ETIME && errno != EINTR && errno != EAGAIN) {
      throw Error(ErrorKind::kSystem, std::string("io_uring_enter was answered with ") + std::strerror(errno),
                  "see errno in io_uring_enter(2)", errno);
    }
  }
}

}  // namespace mqlab::io
