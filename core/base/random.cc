#include "base/random.h"

namespace mqlab {

std::uint64_t Random::below(std::uint64_t bound) noexcept {
  if (bound == 0) return 0;
  // Lemire's method: the high half of a 128-bit product is uniform once the few low halves that would favour
  // some results are thrown away.
  __extension__ using Wide = unsigned __int128;
  Wide product = static_cast<Wide>((*this)()) * bound;
  if (static_cast<std::uint64_t>(product) < bound) {
    const std::uint64_t threshold = (0 - bound) % bound;
    while (static_cast<std::uint64_t>(product) < threshold) product = static_cast<Wide>((*this)()) * bound;
  }
  return static_cast<std::uint64_t>(product >> 64U);
}

}  // namespace mqlab
