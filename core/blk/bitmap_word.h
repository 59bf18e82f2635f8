// Questions about the bits of one word. Pure functions.
#pragma once

#include <bit>
#include <cstdint>

namespace mqlab::blk {

inline constexpr unsigned kBitsPerWord = 64;

/// The lowest `count` bits, for 0 to 64.
constexpr std::uint64_t low_bits(unsigned count) {
  return count >= kBitsPerWord ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}

/// The first zero bit at or after `from`, below `depth`; `depth` or more when there is none.
constexpr unsigned next_zero_bit(std::uint64_t word, unsigned from, unsigned depth) {
  if (from >= kBitsPerWord) return depth;
  return static_cast<unsigned>(std::countr_one(word | low_bits(from)));
}

/// The first one bit at or after `from`; 64 when there is none.
constexpr unsigned next_one_bit(std::uint64_t word, unsigned from) {
  if (from >= kBitsPerWord) return kBitsPerWord;
  return static_cast<unsigned>(std::countr_zero(word & ~low_bits(from)));
}

}  // namespace mqlab::blk
