#include <doctest/doctest.h>
#include <optional>

#include "base/cancel.h"

namespace mqlab {

TEST_CASE("without an open scope there is nothing to cancel") {
  CHECK_FALSE(request_cancel());
  CHECK_FALSE(cancel_requested());
}

TEST_CASE("a request lasts until the last scope is closed") {
  std::optional<CancelScope> outer(std::in_place);
  {
    const CancelScope inner;
    CHECK(request_cancel());
    CHECK(cancel_requested());
  }
  CHECK(cancel_requested());
  CHECK_THROWS_AS(throw_if_cancelled(), Cancelled);
  outer.reset();
  CHECK_FALSE(cancel_requested());

  const CancelScope later;
  CHECK_FALSE(cancel_requested());
}

}  // namespace mqlab
