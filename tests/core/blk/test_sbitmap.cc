// The bitmap against a model that knows no words, and against what the kernel's documentation promises.
#include "blk/sbitmap.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <vector>

#include "platform/native/platform.h"
#include "sbitmap_model.h"

using namespace mqlab::blk;
using mqlab::blk::testing::SbitmapModel;
using P = mqlab::native::Platform;
using Map = Sbitmap<P>;

namespace {

struct Pair {
  Pair(unsigned depth, const SbitmapOptions& options)
      : map(depth, options), model(depth, map.shift(), options.round_robin, map.hint(P::this_cpu())), most(depth) {}

  void got(unsigned bit, unsigned expected) {
    RC_ASSERT(bit == expected);
    if (bit != kNoBit) held.push_back(bit);
  }
  void got(BitBatch batch, BitBatch expected) {
    RC_ASSERT(batch.mask == expected.mask);
    if (batch.mask == 0) return;
    RC_ASSERT(batch.offset == expected.offset);
    for (unsigned i = 0; i < kBitsPerWord; ++i)
      if ((batch.mask >> i & 1) != 0) held.push_back(batch.offset + i);
  }
  unsigned take_held() {
    const auto place = held.begin() + *rc::gen::inRange<std::ptrdiff_t>(0, std::ssize(held));
    const unsigned bit = *place;
    held.erase(place);
    return bit;
  }

  Map map;
  SbitmapModel model;
  unsigned most;
  std::vector<unsigned> held;
};

void free_one(Pair& pair) {
  if (pair.held.empty()) return;
  const unsigned bit = pair.take_held();
  const bool at_once = *rc::gen::arbitrary<bool>();
  if (at_once) {
    pair.map.clear_in_word(pair.map.word_index(bit), pair.map.mask_of(bit));
    pair.map.hint(P::this_cpu(), bit);
  } else {
    pair.map.put(bit);
  }
  pair.model.clear(bit, at_once);
}

void resize(Pair& pair) {
  // Bits above the new depth that are still held would be freed behind the bitmap's end, as in the kernel, and a hint
  // above it replaced by a random one: neither is tried here.
  unsigned highest = pair.held.empty() ? 0 : *std::max_element(pair.held.begin(), pair.held.end());
  highest = std::min(std::max(highest, pair.model.hint()), pair.most - 1);
  const unsigned depth = *rc::gen::inRange(highest + 1, pair.most + 1);
  pair.map.resize(depth);
  pair.model.resize(depth);
}

void one_step(Pair& pair) {
  const unsigned depth = pair.model.depth();
  switch (*rc::gen::weightedElement<int>({{6, 0}, {3, 1}, {4, 2}, {8, 3}, {1, 4}})) {
    case 0:
      return pair.got(pair.map.get(), pair.model.get());
    case 1: {
      const unsigned shallow = *rc::gen::inRange(1U, depth + 2);
      return pair.got(pair.map.get_shallow(shallow), pair.model.get_shallow(shallow));
    }
    case 2: {
      const unsigned wanted = *rc::gen::inRange(1U, 33U);
      return pair.got(pair.map.get_batch(wanted), pair.model.get_batch(wanted));
    }
    case 3:
      return free_one(pair);
    default:
      return resize(pair);
  }
}

void check_whole(const Pair& pair) {
  std::vector<unsigned> sorted = pair.held;
  std::sort(sorted.begin(), sorted.end());
  RC_ASSERT(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
  std::vector<unsigned> seen;
  pair.map.for_each_set([&](unsigned bit) {
    seen.push_back(bit);
    return true;
  });
  RC_ASSERT(seen == sorted);
  RC_ASSERT(pair.map.weight() == sorted.size());
  RC_ASSERT(pair.map.any_bit_set() == !sorted.empty());
}

void history(bool round_robin) {
  const unsigned depth = *rc::gen::inRange(1U, 300U);
  const int shift = *rc::gen::element(-1, 0, 2, 4, 6);
  Pair pair(depth, {.shift = shift, .round_robin = round_robin});
  const int steps = *rc::gen::inRange(1, 400);
  for (int step = 0; step < steps; ++step) {
    one_step(pair);
    RC_ASSERT(pair.map.hint(P::this_cpu()) == pair.model.hint());
  }
  check_whole(pair);
}

}  // namespace

TEST_CASE("any history gives the bits that the model gives") {
  CHECK(rc::check("hints", [] { history(false); }));
  CHECK(rc::check("round robin", [] { history(true); }));
}

TEST_CASE("bits a word: four words at least, 64 bits at most") {
  CHECK(sbitmap_shift(1) == 6);
  CHECK(sbitmap_shift(3) == 6);
  CHECK(sbitmap_shift(4) == 0);
  CHECK(sbitmap_shift(16) == 2);
  CHECK(sbitmap_shift(127) == 4);
  CHECK(sbitmap_shift(128) == 5);
  CHECK(sbitmap_shift(255) == 5);
  CHECK(sbitmap_shift(256) == 6);
  CHECK(sbitmap_shift(1023) == 6);
  CHECK(Map(1023).word_count() == 16);
  CHECK(Map(128).word_count() == 4);
}

TEST_CASE("every bit can be had, once, and none more") {
  for (const bool round_robin : {false, true})
    for (const unsigned depth : {1U, 2U, 5U, 64U, 65U, 127U, 1023U}) {
      Map map(depth, {.round_robin = round_robin});
      std::vector<int> times(depth, 0);
      for (unsigned i = 0; i < depth; ++i) {
        const unsigned bit = map.get();
        REQUIRE(bit < depth);
        ++times[bit];
      }
      CHECK(map.get() == kNoBit);
      CHECK(std::count(times.begin(), times.end(), 1) == static_cast<long>(depth));
    }
}

TEST_CASE("round robin goes on behind the last bit although earlier ones are free") {
  Map map(8, {.shift = 3, .round_robin = true});
  for (unsigned bit = 0; bit < 4; ++bit) CHECK(map.get() == bit);
  map.put(0);
  CHECK(map.get() == 4);
  CHECK(map.get_batch(2).mask == 0);
}

TEST_CASE("a freed bit is cleared late: only when its word looks full, or by a batch") {
  Map map(64, {.shift = 6});
  const BitBatch all = map.get_batch(64);
  REQUIRE(all.mask == ~std::uint64_t{0});
  map.put(7);
  CHECK(map.word_bits(0) == ~std::uint64_t{0});
  CHECK(map.cleared_bits(0) == std::uint64_t{1} << 7);
  CHECK(map.weight() == 63);
  CHECK_FALSE(map.test(7));
  CHECK(map.get() == 7);
  CHECK(map.cleared_bits(0) == 0);
}

TEST_CASE("a batch is one window from the first free bit of a word; what others hold is missing") {
  Map map(64, {.shift = 6});
  REQUIRE(map.get_batch(64).mask != 0);
  for (const unsigned bit : {3U, 4U, 6U, 40U}) map.put(bit);
  const BitBatch batch = map.get_batch(8);
  CHECK(batch.offset == 3);
  CHECK(batch.mask == 0b1011);
  CHECK(map.weight() == 63);
}

TEST_CASE("a word whose window would end beyond it is passed over") {
  Map map(128, {.shift = 6});
  map.hint(P::this_cpu(), 0);
  REQUIRE(map.get_batch(63).mask != 0);
  map.hint(P::this_cpu(), 0);
  const BitBatch batch = map.get_batch(2);
  CHECK(batch.offset == 64);
  CHECK(batch.mask == 0b11);
}

TEST_CASE("shallow users get their share of every word and no more") {
  for (const unsigned depth : {16U, 64U, 100U, 1023U})
    for (const unsigned shallow : {1U, 3U, depth / 4, depth / 2, depth - 1, depth}) {
      if (shallow == 0) continue;
      Map map(depth);
      unsigned count = 0;
      while (map.get_shallow(shallow) != kNoBit) ++count;
      // Shares are rounded a word at a time.
      CHECK(count + map.word_count() >= std::min(shallow, depth));
      CHECK(count <= std::min(shallow + map.word_count(), depth));
    }
}

TEST_CASE("a smaller depth gives no bits above it, the old depth all of them again") {
  Map map(256);
  map.resize(100);
  unsigned highest = 0;
  for (unsigned i = 0; i < 100; ++i) highest = std::max(highest, map.get());
  CHECK(highest == 99);
  CHECK(map.get() == kNoBit);
  map.resize(256);
  for (unsigned i = 100; i < 256; ++i) CHECK(map.get() != kNoBit);
  CHECK(map.get() == kNoBit);
}

TEST_CASE("an empty bitmap has nothing to give") {
  Map map(0);
  CHECK(map.get() == kNoBit);
  CHECK(map.get_batch(1).mask == 0);
  CHECK_FALSE(map.any_bit_set());
}

TEST_CASE("iterating begins anywhere, goes round once and can be stopped") {
  Map map(100);
  for (unsigned i = 0; i < 100; ++i) REQUIRE(map.get() != kNoBit);
  for (const unsigned bit : {0U, 50U, 99U}) map.put(bit);
  std::vector<unsigned> seen;
  map.for_each_set(
      [&](unsigned bit) {
        seen.push_back(bit);
        return true;
      },
      90);
  CHECK(seen.size() == 97);
  CHECK(seen.front() == 90);
  CHECK(seen.back() == 89);
  int count = 0;
  map.for_each_set([&](unsigned) { return ++count < 5; });
  CHECK(count == 5);
}
