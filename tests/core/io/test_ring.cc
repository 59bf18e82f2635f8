#include <doctest/doctest.h>
#include <linux/io_uring.h>

#include <array>
#include <chrono>
#include <optional>

#include "base/error.h"
#include "io/ring.h"

namespace mqlab::io {

namespace {

using std::chrono::milliseconds;

// The ring, or nothing with a message where this machine forbids io_uring.
std::optional<Ring> ring_or_skip(const RingOptions& options) {
  try {
    return Ring(options);
  } catch (const Error& error) {
    REQUIRE(error.kind == ErrorKind::kUnsupported);
    MESSAGE("skipped: ", std::string(error.what()), "; ", error.remedy);
    return std::nullopt;
  }
}

void fill_nop(Ring& ring, std::uint64_t user_data) {
  io_uring_sqe* sqe = ring.next_sqe();
  REQUIRE(sqe != nullptr);
  sqe->opcode = IORING_OP_NOP;
  sqe->user_data = user_data;
}

}  // namespace

TEST_CASE("every filled entry is answered once, in order, also past the end of the queue") {
  auto ring = ring_or_skip({.entries = 4});
  if (!ring) return;
  for (std::uint64_t i = 0; i < 50; ++i) {
    fill_nop(*ring, 2 * i);
    fill_nop(*ring, 2 * i + 1);
    ring->submit();
    for (std::uint64_t j = 0; j < 2; ++j) {
      const auto completion = ring->wait(milliseconds(1000));
      REQUIRE(completion.has_value());
      CHECK(completion->user_data == 2 * i + j);
      CHECK(completion->result == 0);
    }
  }
  CHECK_FALSE(ring->try_pop().has_value());
}

TEST_CASE("a full queue gives no entry until it is submitted") {
  auto ring = ring_or_skip({.entries = 2});
  if (!ring) return;
  fill_nop(*ring, 1);
  fill_nop(*ring, 2);
  CHECK(ring->next_sqe() == nullptr);
  ring->submit();
  CHECK(ring->next_sqe() != nullptr);
}

TEST_CASE("wait submits what is filled and ends at its limit") {
  auto ring = ring_or_skip({});
  if (!ring) return;
  fill_nop(*ring, 7);
  const auto completion = ring->wait(milliseconds(1000));
  REQUIRE(completion.has_value());
  CHECK(completion->user_data == 7);

  const auto begin = std::chrono::steady_clock::now();
  CHECK_FALSE(ring->wait(milliseconds(20)).has_value());
  const auto waited = std::chrono::steady_clock::now() - begin;
  CHECK(waited >= milliseconds(20));
  CHECK(waited < milliseconds(5000));
}

TEST_CASE("the kernel says how many workers it would start, and asking changes nothing") {
  auto ring = ring_or_skip({});
  if (!ring) return;
  const auto limits = ring->worker_limits();
  if (!limits) return;
  CHECK(limits->at(0) > 0);
  CHECK(limits->at(1) > 0);
  CHECK(ring->worker_limits() == limits);
}

TEST_CASE("entries of 128 bytes stand side by side and keep their command areas apart") {
  auto ring = ring_or_skip({.entries = 4, .sqe128 = true});
  if (!ring) return;
  io_uring_sqe* first = ring->next_sqe();
  io_uring_sqe* second = ring->next_sqe();
  CHECK(reinterpret_cast<std::byte*>(second) - reinterpret_cast<std::byte*>(first) == 128);
  CHECK(Ring::command_area(first) - reinterpret_cast<std::byte*>(first) == 48);
}

TEST_CASE("a lean ring hands over what is done when it is asked, many at a time") {
  auto ring = ring_or_skip({.entries = 4, .cq_entries = 8, .lean = true});
  if (!ring) return;
  INFO(ring->describe());
  CHECK(ring->describe() != "plain");
  std::array<Completion, 3> out{};
  CHECK(ring->pop_all(out) == 0);
  for (std::uint64_t round = 0; round < 20; ++round) {
    for (std::uint64_t i = 0; i < 4; ++i) fill_nop(*ring, i);
    REQUIRE(ring->submit_and_wait(4, milliseconds(1000)));
    CHECK(ring->pop_all(out) == 3);
    CHECK(out[2].user_data == 2);
    CHECK(ring->pop_all(out) == 1);
    CHECK(out[0].user_data == 3);
  }
  CHECK_FALSE(ring->submit_and_wait(1, milliseconds(20)));
  CHECK(ring->submit_and_wait(0, milliseconds(0)));
}

}  // namespace mqlab::io
