#include "devices/ublk_disk.h"

#include <unistd.h>

#include <exception>

namespace mqlab::devices {
namespace {

constexpr std::uint32_t kBufferBytes = 64 * 1024;

UblkAddRequest add_request(const UblkDiskRequest& request) {
  UblkAddRequest add;
  add.queues = request.queues;
  add.depth = request.depth;
  add.max_io_buf_bytes = kBufferBytes;
  return add;
}

}  // namespace

UblkDisk::UblkDisk(const UblkDiskRequest& request)
    : control_(request.limit), info_(control_.add(add_request(request))) {
  try {
    start(request);
  } catch (...) {
    give_up();
    throw;
  }
}

UblkDisk::~UblkDisk() { give_up(); }

void UblkDisk::give_up() noexcept {
  try {
    remove();
  } catch (const std::exception&) {
    server_.reset();  // without its server the kernel gives up the device by itself
  }
}

std::string UblkDisk::path() const { return "/dev/ublkb" + std::to_string(info_.dev_id); }

std::string UblkDisk::queue_path() const { return "/sys/block/ublkb" + std::to_string(info_.dev_id) + "/queue"; }

void UblkDisk::start(const UblkDiskRequest& request) {
  control_.set_params(info_.dev_id, basic_params(request.size_bytes, kBufferBytes));
  server_ = std::make_unique<UblkNullServer>(info_, request.order);
  control_.start(info_.dev_id, getpid());
}

// A STOP comes before each DEL: a device that was half started hangs a DEL without it.
void UblkDisk::remove() {
  if (!present_) return;
  present_ = false;
  control_.stop(info_.dev_id);
  if (server_) {
    server_->join();
    server_->close_device();
  }
  control_.del(info_.dev_id);
}

}  // namespace mqlab::devices
