// Workers of a stress run that make and delete devices: ublk ones with a server, and null_blk ones.
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <thread>

#include "base/error.h"
#include "devices/null_blk.h"
#include "devices/ublk_control.h"
#include "devices/ublk_server.h"
#include "workloads/stress_worker.h"

namespace mqlab::workloads {
namespace {

constexpr std::uint32_t kBufferBytes = 64 * 1024;
constexpr std::uint64_t kDiskBytes = 64ULL << 20U;
constexpr unsigned kMaxQueues = 4;
constexpr std::chrono::milliseconds kPause{5};

// Makes and deletes in turn, at random, so that the number of live devices wanders between none and the most.
template <class Device>
class Churner : public StressWorker {
 public:
  using StressWorker::StressWorker;

 protected:
  void turn() override {
    const bool make = devices_.empty() || (devices_.size() < options_.devices && random_.below(2) == 0);
    if (make) {
      create();
    } else {
      const std::size_t index = random_.below(devices_.size());
      if (destroy(devices_[index])) devices_.erase(devices_.begin() + static_cast<std::ptrdiff_t>(index));
    }
    // Others need time to meet the devices.
    std::this_thread::sleep_for(kPause * random_.below(4));
  }

  void take_back() override {
    while (!devices_.empty()) {
      if (!destroy(devices_.back())) {
        throw Error(ErrorKind::kSystem, "a device of the stress run could not be deleted at its end",
                    "the notes of the run and dmesg say why");
      }
      devices_.pop_back();
    }
  }

  virtual void create() = 0;
  virtual bool destroy(Device& device) = 0;

  unsigned random_queues() { return 1 + static_cast<unsigned>(random_.below(std::min(options_.cpus, kMaxQueues))); }

  std::deque<Device> devices_;
};

struct UblkDevice {
  devices::ublk::DevInfo info{};
  std::unique_ptr<devices::UblkNullServer> server;
  std::string name;
};

class UblkChurner final : public Churner<UblkDevice> {
 public:
  UblkChurner(const StressOptions& options, LiveDevices& live, Random random)
      : Churner(options, live, random), control_(options.limit) {
    control_.check_commands();
  }

 protected:
  void create() override {
    UblkDevice device;
    const bool made = attempt(StressOp::kCreateUblk, [&] {
      device.info = control_.add({.queues = static_cast<std::uint16_t>(random_queues()),
                                  .depth = static_cast<std::uint16_t>(4U << random_.below(5)),
                                  .max_io_buf_bytes = kBufferBytes});
      try {
        start(device);
      } catch (...) {
        // A device that was half started hangs a DEL without a STOP before it.
        remove(device);
        throw;
      }
    });
    if (!made) return;
    live_->add(device.name);
    devices_.push_back(std::move(device));
  }

  bool destroy(UblkDevice& device) override {
    const bool gone = attempt(StressOp::kDeleteUblk, [&] { remove(device); });
    if (gone) live_->remove(device.name);
    return gone;
  }

 private:
  void start(UblkDevice& device) {
    control_.set_params(device.info.dev_id, devices::basic_params(kDiskBytes, kBufferBytes));
    device.server = std::make_unique<devices::UblkNullServer>(device.info);
    control_.start(device.info.dev_id, getpid());
    device.name = "ublkb" + std::to_string(device.info.dev_id);
  }

  void remove(UblkDevice& device) {
    control_.stop(device.info.dev_id);
    device.server.reset();
    control_.del(device.info.dev_id);
  }

  devices::UblkControl control_;
};

class NullBlkChurner final : public Churner<std::string> {
 public:
  NullBlkChurner(const StressOptions& options, LiveDevices& live, Random random)
      : Churner(options, live, random), driver_(tree_) {}

 protected:
  void create() override {
    const std::string name = devices::NullBlkDriver::fresh_name();
    const devices::NullBlkOptions options{.queues = random_queues(),
                                          .depth = 4U << random_.below(6),
                                          .size_mib = kDiskBytes >> 20U,
                                          .block_bytes = 512,
                                          .memory_backed = random_.below(4) == 0};
    if (!attempt(StressOp::kCreateNullBlk, [&] { driver_.create(name, options); })) return;
    live_->add(name);
    devices_.push_back(name);
  }

  bool destroy(std::string& name) override {
    const bool gone = attempt(StressOp::kDeleteNullBlk, [&] { driver_.destroy(name); });
    if (gone) live_->remove(name);
    return gone;
  }

 private:
  devices::NullBlkDriver driver_;
};

}  // namespace

std::unique_ptr<StressWorker> make_ublk_churner(const StressOptions& options, LiveDevices& live, Random random) {
  return std::make_unique<UblkChurner>(options, live, random);
}

std::unique_ptr<StressWorker> make_null_blk_churner(const StressOptions& options, LiveDevices& live, Random random) {
  return std::make_unique<NullBlkChurner>(options, live, random);
}

}  // namespace mqlab::workloads
