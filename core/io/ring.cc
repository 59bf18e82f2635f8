#include "io/ring.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/mapping.h"
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

// One of the ring's three shared areas.
class Area {
 public:
  Area(int fd, std::size_t size, std::uint64_t offset)
      : pages_({.size_bytes = size,
                .protection = PROT_READ | PROT_WRITE,
                .flags = MAP_SHARED | MAP_POPULATE,
                .fd = fd,
                .offset_bytes = offset},
               "an io_uring queue", "raise RLIMIT_MEMLOCK (ulimit -l) or free memory") {}

  template <class T>
  T* at(std::uint32_t offset) const {
    return reinterpret_cast<T*>(pages_.bytes().data() + offset);
  }

 private:
  Mapping pages_;
};

struct NamedFlag {
  std::uint32_t flag;
  const char* name;
};

// The youngest first. Each needs those after it, so an older kernel is asked with fewer and fewer.
constexpr std::array kLeanFlags = {NamedFlag{kSetupNoSqarray, "NO_SQARRAY"},        // 6.6
                                   NamedFlag{kSetupDeferTaskrun, "DEFER_TASKRUN"},  // 6.1
                                   NamedFlag{kSetupSingleIssuer, "SINGLE_ISSUER"},  // 6.0
                                   NamedFlag{kSetupCoopTaskrun, "COOP_TASKRUN"}};   // 5.19
constexpr std::array kOtherFlags = {NamedFlag{kSetupSqe128, "SQE128"}, NamedFlag{IORING_SETUP_CQSIZE, "CQSIZE"}};

io_uring_params params_of(const RingOptions& options, std::uint32_t lean_flags) {
  io_uring_params params{};
  params.flags = lean_flags;
  if (options.sqe128) params.flags |= kSetupSqe128;
  if (options.cq_entries != 0) {
    params.flags |= IORING_SETUP_CQSIZE;
    params.cq_entries = options.cq_entries;
  }
  return params;
}

// A kernel answers EINVAL to a flag that it does not know.
int setup(const RingOptions& options, io_uring_params& params) {
  std::uint32_t lean_flags = 0;
  if (options.lean) {
    for (const NamedFlag& lean : kLeanFlags) lean_flags |= lean.flag;
  }
  for (std::size_t dropped = 0;; ++dropped) {
    params = params_of(options, lean_flags);
    const long fd = syscall(__NR_io_uring_setup, options.entries, &params);
    if (fd >= 0) return static_cast<int>(fd);
    if (errno != EINVAL || lean_flags == 0) throw_setup_error(errno);
    lean_flags &= ~kLeanFlags[dropped].flag;
  }
}

std::size_t sq_size_of(const io_uring_params& params) {
  if ((params.flags & kSetupNoSqarray) != 0) return params.sq_off.dropped + sizeof(std::uint32_t);
  return params.sq_off.array + params.sq_entries * sizeof(std::uint32_t);
}

}  // namespace

// The order of members is the order of construction, and the reverse of
// teardown: queues are unmapped before the descriptor closes.
struct Ring::Mapped {
  explicit Mapped(const RingOptions& options)
      : sqe_size(options.sqe128 ? 2 * sizeof(io_uring_sqe) : sizeof(io_uring_sqe)),
        params{},
        fd(setup(options, params)),
        sq(fd.get(), sq_size_of(params), IORING_OFF_SQ_RING),
        cq(fd.get(), params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING),
        sqes(fd.get(), params.sq_entries * sqe_size, IORING_OFF_SQES),
        local_tail(*sq.at<std::uint32_t>(params.sq_off.tail)) {
    // Entry i always stands in slot i, so the index array, where there is one, never changes.
    if ((params.flags & kSetupNoSqarray) != 0) return;
    auto* array = sq.at<std::uint32_t>(params.sq_off.array);
    for (std::uint32_t i = 0; i < params.sq_entries; ++i) array[i] = i;
  }

  std::uint32_t pending() const { return local_tail - load_acquire(sq.at<std::uint32_t>(params.sq_off.head)); }
  std::uint32_t ready() const {
    return load_acquire(cq.at<std::uint32_t>(params.cq_off.tail)) - *cq.at<std::uint32_t>(params.cq_off.head);
  }

  std::size_t sqe_size;
  io_uring_params params;
  Descriptor fd;
  Area sq;
  Area cq;
  Area sqes;
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

std::size_t Ring::pop_all(std::span<Completion> out) {
  Mapped& m = *mapped_;
  auto* head = m.cq.at<std::uint32_t>(m.params.cq_off.head);
  const auto* cqes = m.cq.at<io_uring_cqe>(m.params.cq_off.cqes);
  const std::size_t count = std::min<std::size_t>(m.ready(), out.size());
  std::uint32_t at = *head;
  for (Completion& completion : out.first(count)) {
    const io_uring_cqe& cqe = cqes[at++ & (m.params.cq_entries - 1)];
    completion = {cqe.user_data, cqe.res};
  }
  store_release(head, at);
  return count;
}

std::optional<Completion> Ring::wait(std::chrono::nanoseconds limit) {
  submit_and_wait(1, limit);
  return try_pop();
}

bool Ring::submit_and_wait(unsigned count, std::chrono::nanoseconds limit) {
  Mapped& m = *mapped_;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  store_release(m.sq.at<std::uint32_t>(m.params.sq_off.tail), m.local_tail);
  bool entered = false;
  for (;;) {
    // A lean ring gets its completions only by entering the kernel.
    if (m.pending() == 0 && m.ready() >= count && (entered || count > 0)) return true;
    const auto left = std::max<std::chrono::nanoseconds>(deadline - std::chrono::steady_clock::now(), {});
    if (entered && left == std::chrono::nanoseconds::zero()) return false;
    const auto left_ns = left.count();
    struct {
      std::int64_t seconds;
      std::int64_t nanoseconds;
    } timeout{left_ns / 1000000000, left_ns % 1000000000};
    io_uring_getevents_arg arg{};
    arg.ts = reinterpret_cast<std::uint64_t>(&timeout);
    const long done = syscall(__NR_io_uring_enter, m.fd.get(), m.pending(), count,
                              IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &arg, sizeof arg);
    entered = true;
    if (done < 0 && errno != ETIME && errno != EINTR && errno != EAGAIN) {
      throw Error(ErrorKind::kSystem, std::string("io_uring_enter was answered with ") + std::strerror(errno),
                  "see errno in io_uring_enter(2)", errno);
    }
  }
}

bool Ring::register_files(std::span<const int> files) {
  return syscall(__NR_io_uring_register, mapped_->fd.get(), IORING_REGISTER_FILES, files.data(),
                 static_cast<unsigned>(files.size())) == 0;
}

bool Ring::register_buffer(std::span<std::byte> buffer) {
  const iovec whole{buffer.data(), buffer.size()};
  return syscall(__NR_io_uring_register, mapped_->fd.get(), IORING_REGISTER_BUFFERS, &whole, 1U) == 0;
}

std::string Ring::describe() const {
  std::string text;
  const auto add = [this, &text](const NamedFlag& known) {
    if ((mapped_->params.flags & known.flag) == 0) return;
    if (!text.empty()) text += ' ';
    text += known.name;
  };
  for (const NamedFlag& known : kOtherFlags) add(known);
  for (auto known = kLeanFlags.rbegin(); known != kLeanFlags.rend(); ++known) add(*known);
  return text.empty() ? "plain" : text;
}

}  // namespace mqlab::io
