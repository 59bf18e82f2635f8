// Asking running work to stop, for Ctrl-C.
//
// Work that may take long opens a CancelScope and polls cancel_requested(), or calls throw_if_cancelled() at
// places where it can be unwound. A request reaches every scope that is open in the process and ends with the
// last of them, so it can neither be missed by one nor hit work that starts later. All functions are thread
// safe; request_cancel() and cancel_requested() may be called from a signal handler.
#pragma once

#include <exception>

namespace mqlab {

class CancelScope {
 public:
  CancelScope() noexcept;
  ~CancelScope();
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;
};

// Asks every open scope to stop. Returns whether there was one; without one, nothing is asked.
bool request_cancel() noexcept;

// Cheap enough to be polled at every scheduling point: one relaxed load.
bool cancel_requested() noexcept;

// Thrown out of cancelled work. Not an Error: nothing failed.
class Cancelled : public std::exception {
 public:
  const char* what() const noexcept override { return "cancelled"; }
};

inline void throw_if_cancelled() {
  if (cancel_requested()) throw Cancelled();
}

}  // namespace mqlab
