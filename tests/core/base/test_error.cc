#include <doctest/doctest.h>
#include <cerrno>

#include "base/error.h"

namespace mqlab {

TEST_CASE("an error carries its kind, its message and its remedy") {
  const Error error(ErrorKind::kUnsupported, "no ublk here", "load ublk_drv");
  CHECK(error.kind == ErrorKind::kUnsupported);
  CHECK(std::string(error.what()) == "no ublk here");
  CHECK(error.remedy == "load ublk_drv");
  CHECK(error.os_errno == 0);
}

TEST_CASE("a system error says what the system answered") {
  const Error error = system_error("open /dev/ublk-control", ENOENT, "load ublk_drv");
  CHECK(error.kind == ErrorKind::kSystem);
  CHECK(std::string(error.what()) == "open /dev/ublk-control: No such file or directory");
  CHECK(error.os_errno == ENOENT);
}

TEST_CASE("each kind has a name of its own") {
  CHECK(to_string(ErrorKind::kUsage) == "usage");
  CHECK(to_string(ErrorKind::kUnsupported) == "unsupported");
  CHECK(to_string(ErrorKind::kSystem) == "system");
  CHECK(to_string(ErrorKind::kTimeout) == "timeout");
  CHECK(to_string(ErrorKind::kInternal) == "internal");
  CHECK(to_string(ErrorKind::kViolation) == "violation");
}

}  // namespace mqlab
