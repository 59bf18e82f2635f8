#include <doctest/doctest.h>
#include <unistd.h>

#include <memory>
#include <set>

#include "base/error.h"
#include "devices/ublk_control.h"
#include "devices/ublk_server.h"

namespace mqlab::devices {

namespace {

// A control, or nothing with a message where the driver is missing.
std::unique_ptr<UblkControl> control_or_skip() {
  try {
    return std::make_unique<UblkControl>(std::chrono::seconds(10));
  } catch (const Error& error) {
    // The reason must tell the user what to do, else this is no skip but a failure.
    REQUIRE(error.kind == ErrorKind::kUnsupported);
    REQUIRE_FALSE(error.remedy.empty());
    MESSAGE("skipped: ", std::string(error.what()), "; ", error.remedy);
    return nullptr;
  }
}

}  // namespace

TEST_CASE("a device is added, described and deleted, and its id is free again") {
  const auto control = control_or_skip();
  if (!control) return;
  const ublk::DevInfo added = control->add({.queues = 1, .depth = 16});
  CHECK(added.nr_hw_queues == 1);
  CHECK(added.queue_depth == 16);
  CHECK(control->info(added.dev_id).dev_id == added.dev_id);
  control->del(added.dev_id);
  CHECK_THROWS_AS(control->info(added.dev_id), Error);
  control->del(added.dev_id);  // gone already: success
}

TEST_CASE("a refused command says what, on what, the answer and the remedy") {
  const auto control = control_or_skip();
  if (!control) return;
  try {
    control->add({.queues = 1, .depth = 0});
    FAIL("a depth of 0 was accepted");
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kSystem);
    CHECK(std::string(error.what()).find("ADD_DEV") != std::string::npos);
    CHECK_FALSE(error.remedy.empty());
  }
}

TEST_CASE("a null server makes a device live and lets it go") {
  const auto control = control_or_skip();
  if (!control) return;
  constexpr std::uint32_t kBufferBytes = 64 * 1024;
  const ublk::DevInfo info = control->add({.max_io_buf_bytes = kBufferBytes});
  control->set_params(info.dev_id, basic_params(1U << 20U, kBufferBytes));
  {
    UblkNullServer server(info);
    control->start(info.dev_id, getpid());
    control->stop(info.dev_id);
    server.join();
    server.close_device();
  }
  control->del(info.dev_id);
}

TEST_CASE("parameters describe the disk in 512-byte sectors") {
  const ublk::Params params = basic_params(1U << 20U, 64 * 1024);
  CHECK(params.len == sizeof params);
  CHECK(params.types == ublk::kParamTypeBasic);
  CHECK(params.basic.dev_sectors == 2048);
  CHECK(params.basic.max_sectors == 128);
}

TEST_CASE("no two commands have the same number") {
  const std::set<std::uint32_t> all = {ublk::kCmdGetDevInfo,      ublk::kCmdAddDev,      ublk::kCmdDelDev,
                                       ublk::kCmdStartDev,        ublk::kCmdStopDev,     ublk::kCmdSetParams,
                                       ublk::kCmdGetFeatures,     ublk::kCmdDelDevAsync, ublk::kIoFetchReq,
                                       ublk::kIoCommitAndFetchReq};
  CHECK(all.size() == 10);
}

}  // namespace mqlab::devices
