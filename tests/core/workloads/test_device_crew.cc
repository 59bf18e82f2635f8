#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/cancel.h"
#include "base/error.h"
#include "workloads/device_crew.h"

namespace mqlab::workloads {

using std::chrono::milliseconds;

TEST_CASE("a crew does each item once, thread t taking t, t + threads, ...") {
  const auto taken_by = std::make_shared<std::vector<std::size_t>>(10, 99);
  const std::uint64_t total_ns =
      Crew(3, milliseconds(60000))
          .run({.name = "taking", .items = 10, .step = [=](std::size_t thread, std::size_t item) {
                  (*taken_by)[item] = thread;
                  std::this_thread::sleep_for(milliseconds(1));
                }});
  for (std::size_t item = 0; item < taken_by->size(); ++item) CHECK((*taken_by)[item] == item % 3);
  CHECK(total_ns >= 4'000'000);  // thread 0 has four items
}

TEST_CASE("after a failure no thread begins another item, and the failure is thrown") {
  const auto done = std::make_shared<std::atomic<unsigned>>(0);
  const auto step = [done](std::size_t thread, std::size_t) {
    if (thread == 1) throw Error(ErrorKind::kSystem, "thread 1 failed");
    done->fetch_add(1);
    std::this_thread::sleep_for(milliseconds(20));
  };
  CHECK_THROWS_WITH_AS(Crew(2, milliseconds(60000)).run({.name = "failing", .items = 100000, .step = step}),
                       "thread 1 failed", Error);
  CHECK(done->load() < 50000);
}

TEST_CASE("an item that does not end within the limit is named and left alone") {
  const auto release = std::make_shared<std::promise<void>>();
  const auto released = std::make_shared<std::shared_future<void>>(release->get_future());
  const auto ended = std::make_shared<std::promise<void>>();
  const auto step = [=](std::size_t, std::size_t item) {
    if (item != 3) return;
    released->wait();
    ended->set_value();
  };
  try {
    Crew(2, milliseconds(1000)).run({.name = "removing the device", .items = 4, .step = step});
    FAIL("ended");
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kTimeout);
    CHECK(std::string(error.what()).find("removing the device of item 3 did not end within 1000 ms") == 0);
    CHECK_FALSE(error.remedy.empty());
  }
  release->set_value();
  ended->get_future().wait();  // the thread that was left alone still had all that it uses
}

TEST_CASE("a crew stops between items when it is cancelled") {
  const CancelScope scope;
  REQUIRE(request_cancel());
  CHECK_THROWS_AS(Crew(2, milliseconds(60000))
                      .run({.name = "never", .items = 4, .step = [](std::size_t, std::size_t) { FAIL("began"); }}),
                  Cancelled);
}

}  // namespace mqlab::workloads
