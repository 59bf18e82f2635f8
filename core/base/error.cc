#include "base/error.h"

#include <system_error>

namespace mqlab {

std::string_view to_string(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::kUsage:
      return "usage";
    case ErrorKind::kUnsupported:
      return "unsupported";
    case ErrorKind::kSystem:
      return "system";
    case ErrorKind::kTimeout:
      return "timeout";
    case ErrorKind::kInternal:
      return "internal";
    case ErrorKind::kViolation:
      return "violation";
  }
  return "internal";
}

Error system_error(const std::string& what, int os_errno, std::string remedy) {
  return {ErrorKind::kSystem, what + ": " + std::generic_category().message(os_errno), std::move(remedy), os_errno};
}

}  // namespace mqlab
