#include <doctest/doctest.h>

#include "base/units.h"

namespace mqlab {

TEST_CASE("times convert between units") {
  CHECK(us_from_ns(1'500) == doctest::Approx(1.5));
  CHECK(ms_from_ns(3'450'000) == doctest::Approx(3.45));
  CHECK(seconds_from_ns(2 * kNsPerSecond) == doctest::Approx(2.0));
  CHECK(kNsPerMs == 1'000 * kNsPerUs);
}

TEST_CASE("rates divide by the elapsed time, and are 0 when none passed") {
  CHECK(per_second(500, kNsPerSecond / 2) == doctest::Approx(1000.0));
  CHECK(mb_per_second(640 * kBytesPerMb, kNsPerSecond) == doctest::Approx(640.0));
  CHECK(per_second(500, 0) == 0.0);
}

}  // namespace mqlab
