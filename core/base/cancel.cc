#include "base/cancel.h"

#include <atomic>
#include <cstdint>

namespace mqlab {

namespace {

// Bit 0: stop was asked for. The rest: the number of open scopes. One word, so that closing the last scope
// and clearing the request cannot be torn apart by a scope that opens in between.
constexpr std::uint32_t kRequested = 1;
constexpr std::uint32_t kScope = 2;
std::atomic<std::uint32_t> state{0};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "request_cancel() is called in signal handlers");

}  // namespace

CancelScope::CancelScope() noexcept { state.fetch_add(kScope, std::memory_order_relaxed); }

CancelScope::~CancelScope() {
  std::uint32_t seen = state.load(std::memory_order_relaxed);
  std::uint32_t next = 0;
  do {
    next = seen - kScope;
    if (next < kScope) next = 0;
  } while (!state.compare_exchange_weak(seen, next, std::memory_order_relaxed));
}

bool request_cancel() noexcept {
  std::uint32_t seen = state.load(std::memory_order_relaxed);
  do {
    if (seen < kScope) return false;
  } while (!state.compare_exchange_weak(seen, seen | kRequested, std::memory_order_relaxed));
  return true;
}

bool cancel_requested() noexcept { return (state.load(std::memory_order_relaxed) & kRequested) != 0; }

}  // namespace mqlab
