#include <doctest/doctest.h>
#include <rapidcheck.h>
#include <array>
#include <random>
#include <set>

#include "base/random.h"

namespace mqlab {

static_assert(std::uniform_random_bit_generator<Random>);

TEST_CASE("splitmix64 gives its published first numbers for seed 1234567") {
  SplitMix64 mixer(1234567);
  for (const std::uint64_t expected : {6457827717110365317U, 3203168211198807973U, 9817491932198370423U}) {
    CHECK(mixer.next() == expected);
  }
}

TEST_CASE("xoshiro256** follows its definition") {
  // The recurrence, written down a second time as the authors' paper has it.
  SplitMix64 mixer(42);
  std::array<std::uint64_t, 4> s = {mixer.next(), mixer.next(), mixer.next(), mixer.next()};
  const auto rotl = [](std::uint64_t x, unsigned k) { return (x << k) | (x >> (64U - k)); };
  Random random(42);
  for (int i = 0; i < 1000; ++i) {
    CHECK(random() == rotl(s[1] * 5, 7) * 9);
    const std::uint64_t t = s[1] << 17U;
    s[2] ^= s[0], s[3] ^= s[1], s[1] ^= s[2], s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
  }
}

TEST_CASE("below() stays below its bound and reaches every value") {
  CHECK(rc::check("below(bound) < bound", [](std::uint64_t seed, std::uint64_t bound) {
    RC_PRE(bound > 0U);
    RC_ASSERT(Random(seed).below(bound) < bound);
  }));
  Random random(7);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random.below(10));
  CHECK(seen.size() == 10);
  CHECK(random.below(0) == 0);
}

TEST_CASE("below() is unbiased where a plain remainder would not be") {
  // With a bound of 3/4 of the range, the remainder would land in the first third twice as often.
  const std::uint64_t bound = (~std::uint64_t{0} / 4) * 3;
  Random random(11);
  int low = 0;
  constexpr int kDraws = 30000;
  for (int i = 0; i < kDraws; ++i) low += random.below(bound) < bound / 3 ? 1 : 0;
  CHECK(low == doctest::Approx(kDraws / 3.0).epsilon(0.05));
}

TEST_CASE("unit() lies in [0, 1) with a mean of a half") {
  Random random(3);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const double x = random.unit();
    REQUIRE(x >= 0.0);
    REQUIRE(x < 1.0);
    sum += x;
  }
  CHECK(sum / 10000 == doctest::Approx(0.5).epsilon(0.03));
}

TEST_CASE("a split generator leaves the same stream behind for the same seed, and has its own") {
  Random a(5);
  Random b(5);
  Random child = a.split();
  b();
  CHECK(a() == b());
  CHECK(child() != a());
}

}  // namespace mqlab
