#include "devices/ublk_server.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/mapping.h"
#include "io/ring.h"
#include "io/uring_abi.h"

namespace mqlab::devices {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kOpenLimit{2000};
constexpr milliseconds kOpenPause{10};
// How long a queue without work sleeps before it looks whether it was told to end. Long, since each look
// disturbs what is measured; STOP_DEV wakes a queue at once.
constexpr milliseconds kIdleTurn{10000};
// How long requests are held back when no more come. Whoever waits for one of them would wait for ever: the scan for
// partitions at START_DEV, a reader at its end, a STOP_DEV.
constexpr milliseconds kHoldLimit{10};

// udev opens a new node for a moment, and a freed id lingers: try for a while.
int open_char_device(std::uint32_t id) {
  const std::string path = "/dev/ublkc" + std::to_string(id);
  const auto deadline = std::chrono::steady_clock::now() + kOpenLimit;
  for (;;) {
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd >= 0) return fd;
    const int err = errno;
    const bool passing = err == EBUSY || err == EACCES || err == ENOENT;
    if (!passing || std::chrono::steady_clock::now() >= deadline) {
      throw Error(ErrorKind::kSystem, "opening " + path + " was answered with " + std::strerror(err),
                  "is devtmpfs mounted on /dev, and does another server hold the device?", err);
    }
    std::this_thread::sleep_for(kOpenPause);
  }
}

std::size_t round_to_page(std::size_t size) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (size + page - 1) / page * page;
}

Mapping map_pages(int fd, std::size_t size, int protection, int flags, std::size_t offset) {
  return {{.size_bytes = size, .protection = protection, .flags = flags, .fd = fd, .offset_bytes = offset},
          "memory of a ublk queue",
          "free memory, or ask for fewer queues or a smaller depth"};
}

// One hardware queue: its ring, descriptors and buffers.
class Queue {
 public:
  Queue(int fd, const ublk::DevInfo& info, std::uint16_t id, const CompletionOrder& order)
      : fd_(fd),
        id_(id),
        depth_(info.queue_depth),
        buffer_size_(info.max_io_buf_bytes),
        held_(order, id),
        descriptors_(map_pages(fd, round_to_page(depth_ * sizeof(ublk::IoDesc)), PROT_READ, MAP_SHARED | MAP_POPULATE,
                               id * round_to_page(ublk::kMaxQueueDepth * sizeof(ublk::IoDesc)))),
        buffers_(map_pages(-1, static_cast<std::size_t>(depth_) * buffer_size_, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, 0)) {}

  void run(const std::atomic<bool>& ending, std::atomic<std::uint64_t>& served, std::atomic<std::uint64_t>& let_go) {
    // The ring is made here because a ublk command must come from one task.
    io::Ring ring({.entries = depth_});
    std::vector<io::Completion> arrived(depth_);
    for (std::uint16_t tag = 0; tag < depth_; ++tag) issue(ring, tag, ublk::kIoFetchReq, 0);
    std::uint32_t fetched = depth_;
    const auto answer = [&](std::uint16_t tag) {
      issue(ring, tag, ublk::kIoCommitAndFetchReq, bytes_of(tag));
      served.fetch_add(1, std::memory_order_relaxed);
    };
    while (fetched > 0 && !ending.load(std::memory_order_relaxed)) {
      if (!ring.submit_and_wait(1, held_.empty() ? kIdleTurn : kHoldLimit)) {
        if (held_.answer_all(answer) > 0) let_go.fetch_add(1, std::memory_order_relaxed);
        continue;
      }
      for (const io::Completion& completion : std::span(arrived).first(ring.pop_all(arrived))) {
        if (completion.result == ublk::kIoResOk) {
          held_.take(static_cast<std::uint16_t>(completion.user_data));
        } else {
          --fetched;  // the command was cancelled or refused: this tag is done
        }
      }
      held_.answer_surplus(answer);
    }
  }

 private:
  std::int32_t bytes_of(std::uint16_t tag) const {
    const auto* all = reinterpret_cast<const ublk::IoDesc*>(descriptors_.bytes().data());
    const std::uint32_t op = all[tag].op_flags & 0xffU;
    if (op != ublk::kOpRead && op != ublk::kOpWrite) return 0;
    return static_cast<std::int32_t>(all[tag].nr_sectors << 9U);
  }

  void issue(io::Ring& ring, std::uint16_t tag, std::uint32_t op, std::int32_t result) const {
    io_uring_sqe* sqe = ring.next_sqe();
    if (sqe == nullptr) {
      throw Error(ErrorKind::kInternal, "the ring of a ublk queue is full", "report this");
    }
    ublk::IoCmd command{};
    command.q_id = id_;
    command.tag = tag;
    command.result = result;
    command.addr = reinterpret_cast<std::uint64_t>(buffers_.bytes().data()) + tag * buffer_size_;
    io::set_uring_command(*sqe, op);
    sqe->fd = fd_;
    sqe->user_data = tag;
    std::memcpy(io::Ring::command_area(sqe), &command, sizeof command);
  }

  int fd_;
  std::uint16_t id_;
  std::uint16_t depth_;
  std::uint64_t buffer_size_;
  HoldBack held_;
  Mapping descriptors_;
  Mapping buffers_;
};

}  // namespace

struct UblkNullServer::State {
  State(const ublk::DevInfo& info, const CompletionOrder& order) : fd(open_char_device(info.dev_id)) {
    try {
      for (std::uint16_t id = 0; id < info.nr_hw_queues; ++id) {
        queues.push_back(std::make_unique<Queue>(fd.get(), info, id, order));
      }
      failures.resize(queues.size());
      for (std::size_t id = 0; id < queues.size(); ++id) {
        threads.emplace_back([this, id] { serve(id); });
      }
    } catch (...) {
      finish();
      close_all();
      throw;
    }
  }
  ~State() {
    finish();
    close_all();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void serve(std::size_t id) {
    try {
      queues[id]->run(ending, served, let_go);
    } catch (...) {
      failures[id] = std::current_exception();
    }
  }

  void finish() {
    ending.store(true, std::memory_order_relaxed);
    join_threads();
  }

  void join_threads() {
    for (std::thread& thread : threads) {
      if (thread.joinable()) thread.join();
    }
  }

  void close_all() {
    queues.clear();
    fd = Descriptor();
  }

  Descriptor fd;
  std::atomic<bool> ending{false};
  std::atomic<std::uint64_t> served{0};
  std::atomic<std::uint64_t> let_go{0};
  std::vector<std::unique_ptr<Queue>> queues;
  std::vector<std::exception_ptr> failures;
  std::vector<std::thread> threads;
};

UblkNullServer::UblkNullServer(const ublk::DevInfo& info, const CompletionOrder& order)
    : state_(std::make_unique<State>(info, order)) {}
UblkNullServer::~UblkNullServer() = default;

void UblkNullServer::join() {
  state_->join_threads();
  for (const std::exception_ptr& failure : state_->failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

void UblkNullServer::close_device() { state_->close_all(); }

std::uint64_t UblkNullServer::requests_served() const { return state_->served.load(std::memory_order_relaxed); }

std::uint64_t UblkNullServer::times_let_go() const { return state_->let_go.load(std::memory_order_relaxed); }

ublk::Params basic_params(std::uint64_t size_bytes, std::uint32_t max_io_buf_bytes) {
  ublk::Params params{};
  params.len = sizeof params;
  params.types = ublk::kParamTypeBasic;
  params.basic.logical_bs_shift = 9;
  params.basic.physical_bs_shift = 12;
  params.basic.io_opt_shift = 12;
  params.basic.io_min_shift = 9;
  params.basic.max_sectors = max_io_buf_bytes >> 9U;
  params.basic.dev_sectors = size_bytes >> 9U;
  return params;
}

}  // namespace mqlab::devices
