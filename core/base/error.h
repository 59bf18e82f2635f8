// The one error type of the C++ code, and the kinds of failure that it tells apart.
//
// A message says what was tried, on what, and what the system answered; the remedy says what to do about it.
// pyapi/bindings maps each kind to a Python exception, in one table.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace mqlab {

enum class ErrorKind {
  kUsage,        // the caller asked for something that makes no sense
  kUnsupported,  // the environment cannot do it
  kSystem,       // a system call failed; os_errno says how
  kTimeout,      // something did not answer within its limit
  kInternal,     // mqlab broke its own rules
  kViolation,    // the simulation found a bug in the code that it ran
};

// A stable lower-case name, for messages and for machine-readable output.
std::string_view to_string(ErrorKind kind) noexcept;

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind_, const std::string& message, std::string remedy_ = {}, int os_errno_ = 0)
      : std::runtime_error(message), kind(kind_), remedy(std::move(remedy_)), os_errno(os_errno_) {}

  ErrorKind kind;
  std::string remedy;  // what the user can do, or empty
  int os_errno;        // errno of the failed call for kSystem, otherwise 0
};

// The Error for a system call that failed: "<what>: <text of os_errno>".
Error system_error(const std::string& what, int os_errno, std::string remedy = {});

}  // namespace mqlab
