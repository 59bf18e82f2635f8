// Worker of a stress run that reads and writes live devices, several requests at a time.
#include <fcntl.h>
#include <linux/io_uring.h>

#include <cerrno>
#include <cstdlib>
#include <new>
#include <thread>

#include "base/descriptor.h"
#include "base/error.h"
#include "io/ring.h"
#include "workloads/stress_worker.h"

namespace mqlab::workloads {
namespace {

constexpr unsigned kDepth = 16;
constexpr unsigned kBurst = 64;  // requests to one device before another is taken
constexpr std::size_t kBlockBytes = 4096;
constexpr std::uint64_t kBlocks = 4096;  // at the start of a device; every stress device is larger
constexpr std::chrono::milliseconds kPause{2};

Descriptor open_disk(const std::string& path) {
  Descriptor file(open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  if (!file.is_open()) throw system_error("opening " + path, errno);
  return file;
}

// Ring and buffers go together: while a request is under way the kernel may write to them.
struct Channel {
  Channel() : ring({.entries = kDepth}), buffers(std::aligned_alloc(kBlockBytes, kDepth * kBlockBytes)) {
    if (buffers == nullptr) throw std::bad_alloc();
  }
  ~Channel() { std::free(buffers); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  std::uint64_t buffer(unsigned slot) const { return reinterpret_cast<std::uint64_t>(buffers) + slot * kBlockBytes; }

  io::Ring ring;
  void* buffers;
};

class IoWorker final : public StressWorker {
 public:
  IoWorker(const StressOptions& options, LiveDevices& live, Random random)
      : StressWorker(options, live, random), channel_(std::make_unique<Channel>()) {}

 protected:
  void turn() override {
    const auto name = pick_device();
    if (!name) {
      std::this_thread::sleep_for(kPause);
      return;
    }
    path_ = "/dev/" + *name;
    Descriptor file;
    const StressOp op = random_.below(2) == 0 ? StressOp::kRead : StressOp::kWrite;
    try {
      file = open_disk(path_);
    } catch (const Error& error) {
      attempt(op, [&] { throw Error(error); });
      return;
    }
    burst(file.get());
  }

 private:
  void burst(int fd) {
    for (unsigned slot = 0; slot < kDepth; ++slot) issue(fd, slot);
    unsigned left = kBurst - kDepth;
    for (unsigned in_flight = kDepth; in_flight > 0;) {
      const auto completion = channel_->ring.wait(options_.limit);
      if (!completion) abandon();
      count(*completion);
      if (left > 0 && completion->result > 0) {
        issue(fd, static_cast<unsigned>(completion->user_data) / 2);
        --left;
      } else {
        --in_flight;
      }
    }
  }

  void issue(int fd, unsigned slot) {
    io_uring_sqe* sqe = channel_->ring.next_sqe();
    if (sqe == nullptr) throw Error(ErrorKind::kInternal, "the ring of a stress worker is full", "report this");
    const bool reads = random_.below(2) == 0;
    sqe->opcode = reads ? IORING_OP_READ : IORING_OP_WRITE;
    sqe->fd = fd;
    sqe->addr = channel_->buffer(slot);
    sqe->len = kBlockBytes;
    sqe->off = random_.below(kBlocks) * kBlockBytes;
    sqe->user_data = slot * 2 + (reads ? 0 : 1);
  }

  void count(const io::Completion& completion) {
    const bool reads = completion.user_data % 2 == 0;
    attempt(reads ? StressOp::kRead : StressOp::kWrite, [&] {
      if (completion.result == static_cast<std::int32_t>(kBlockBytes)) return;
      const int error = completion.result < 0 ? -completion.result : ENODATA;  // less than asked for
      throw system_error((reads ? "reading " : "writing ") + path_, error);
    });
  }

  [[noreturn]] void abandon() {
    static_cast<void>(channel_.release());
    throw Error(ErrorKind::kTimeout,
                "a request to " + path_ + " got no answer within " + std::to_string(options_.limit.count()) + " ms",
                "look for a hung task in dmesg: the request may be lost");
  }

  std::unique_ptr<Channel> channel_;
  std::string path_;
};

}  // namespace

std::unique_ptr<StressWorker> make_io_worker(const StressOptions& options, LiveDevices& live, Random random) {
  return std::make_unique<IoWorker>(options, live, random);
}

}  // namespace mqlab::workloads
