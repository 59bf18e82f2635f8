// Seeded random numbers. The same seed gives the same numbers on every machine and with every standard
// library, which std::uniform_int_distribution does not promise.
#pragma once

#include <array>
#include <cstdint>

namespace mqlab {

// splitmix64: turns any 64-bit number, 0 included, into a well mixed stream. Used to seed and to split.
class SplitMix64 {
 public:
  explicit constexpr SplitMix64(std::uint64_t seed) noexcept : state_(seed) {}

  constexpr std::uint64_t next() noexcept {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }

 private:
  std::uint64_t state_;
};

// xoshiro256**, the project's generator. Not thread safe: each owner has its own. Satisfies
// std::uniform_random_bit_generator.
class Random {
 public:
  using result_type = std::uint64_t;

  explicit constexpr Random(std::uint64_t seed) noexcept : state_{} {
    SplitMix64 mixer(seed);
    for (std::uint64_t& word : state_) word = mixer.next();
  }

  static constexpr result_type min() noexcept { return 0; }
  static constexpr result_type max() noexcept { return ~result_type{0}; }

  constexpr result_type operator()() noexcept {
    const std::uint64_t result = rotate_left(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17U;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = rotate_left(state_[3], 45);
    return result;
  }

  // Uniform in [0, bound), without bias; 0 when bound is 0.
  std::uint64_t below(std::uint64_t bound) noexcept;

  // Uniform in [0, 1), with 53 random bits.
  constexpr double unit() noexcept { return static_cast<double>((*this)() >> 11U) * 0x1.0p-53; }

  // A generator whose stream is unrelated to this one's, for a part that must not disturb the others.
  constexpr Random split() noexcept { return Random((*this)()); }

 private:
  static constexpr std::uint64_t rotate_left(std::uint64_t x, unsigned bits) noexcept {
    return (x << bits) | (x >> (64 - bits));
  }

  std::array<std::uint64_t, 4> state_;
};

}  // namespace mqlab
