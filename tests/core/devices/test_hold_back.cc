#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "devices/hold_back.h"

namespace mqlab::devices {

namespace {

constexpr std::uint16_t kBatch = 32;

// Answers of a queue whose tags come in whole batches, 0, 1, 2, ... without end.
std::vector<std::uint16_t> answers_of(const CompletionOrder& order, unsigned batches, std::uint16_t queue_id = 0) {
  HoldBack queue(order, queue_id);
  std::vector<std::uint16_t> answers;
  for (unsigned tag = 0; tag < batches * kBatch; ++tag) {
    queue.take(static_cast<std::uint16_t>(tag));
    if (tag % kBatch == kBatch - 1) queue.answer_surplus([&](std::uint16_t answered) { answers.push_back(answered); });
  }
  return answers;
}

bool has_duplicates(std::vector<std::uint16_t> tags) {
  std::ranges::sort(tags);
  return std::ranges::adjacent_find(tags) != tags.end();
}

}  // namespace

TEST_CASE("with none held back a queue answers in order, all at once") {
  std::vector<std::uint16_t> in_order(std::size_t{4} * kBatch);
  std::iota(in_order.begin(), in_order.end(), std::uint16_t{0});
  CHECK(answers_of({}, 4) == in_order);
}

TEST_CASE("a queue that holds back answers the surplus, each once, out of order") {
  const std::vector<std::uint16_t> answers = answers_of({.held_back = 48, .seed = 7}, 100);
  CHECK(answers.size() == 100 * kBatch - 48);
  CHECK_FALSE(has_duplicates(answers));
  CHECK_FALSE(std::ranges::is_sorted(answers));
}

TEST_CASE("the seed and the queue decide the order") {
  const CompletionOrder order{.held_back = 24, .seed = 3};
  CHECK(answers_of(order, 20) == answers_of(order, 20));
  CHECK(answers_of(order, 20) != answers_of({.held_back = 24, .seed = 4}, 20));
  CHECK(answers_of(order, 20) != answers_of(order, 20, 1));
}

TEST_CASE("all that is held back is let go when asked, once") {
  HoldBack queue({.held_back = 8}, 0);
  for (std::uint16_t tag = 0; tag < 6; ++tag) queue.take(tag);
  std::vector<std::uint16_t> answers;
  const auto keep = [&](std::uint16_t tag) { answers.push_back(tag); };
  CHECK(queue.answer_surplus(keep) == 0);
  CHECK_FALSE(queue.empty());
  CHECK(queue.answer_all(keep) == 6);
  CHECK(queue.empty());
  CHECK(queue.answer_all(keep) == 0);
  CHECK(answers == std::vector<std::uint16_t>{0, 1, 2, 3, 4, 5});
}

}  // namespace mqlab::devices
