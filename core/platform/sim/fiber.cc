#include "platform/sim/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace mqlab::sim {
namespace {

using boost::context::detail::fcontext_t;
using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

std::size_t guard_bytes() {
  static const std::size_t bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

/// Stacks are kept for the next fiber of the thread: mapping one costs more than a whole simulated deletion.
class StackPool {
 public:
  ~StackPool() {
    for (void* stack : free_) munmap(stack, Fiber::kStackBytes + guard_bytes());
  }
  void* take() {
    if (!free_.empty()) {
      void* stack = free_.back();
      free_.pop_back();
      return stack;
    }
    void* base = mmap(nullptr, Fiber::kStackBytes + guard_bytes(), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) throw std::bad_alloc();
    mprotect(base, guard_bytes(), PROT_NONE);  // an overflow faults instead of writing into a neighbour
    return base;
  }
  void give(void* stack) { free_.push_back(stack); }

 private:
  std::vector<void*> free_;
};

StackPool& stack_pool() {
  thread_local StackPool pool;
  return pool;
}

}  // namespace

FiberHost::FiberHost() {
#if defined(__SANITIZE_THREAD__)
  tsan_fiber_ = __tsan_get_current_fiber();
#endif
}

FiberHost::~FiberHost() = default;

Fiber::Fiber(FiberHost& host, std::function<void()> body)
    : host_(host), body_(std::move(body)), stack_(stack_pool().take()) {
  char* top = static_cast<char*>(stack_) + guard_bytes() + kStackBytes;
  context_ = make_fcontext(top, kStackBytes, &Fiber::entry);
#if defined(__SANITIZE_THREAD__)
  tsan_fiber_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(tsan_fiber_);
#endif
  stack_pool().give(stack_);
}

void Fiber::resume() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&host_.fake_stack_, static_cast<char*>(stack_) + guard_bytes(), kStackBytes);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(tsan_fiber_, 0);
#endif
  context_ = jump_fcontext(context_, this).fctx;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(host_.fake_stack_, nullptr, nullptr);
#endif
}

void Fiber::leave([[maybe_unused]] bool for_good) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack_, host_.stack_bottom_, host_.stack_size_);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(host_.tsan_fiber_, 0);
#endif
  host_.context_ = jump_fcontext(host_.context_, nullptr).fctx;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack_, &host_.stack_bottom_, &host_.stack_size_);
#endif
}

void Fiber::suspend() { leave(false); }

void Fiber::entry(transfer_t transfer) {
  auto* self = static_cast<Fiber*>(transfer.data);
  self->host_.context_ = transfer.fctx;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &self->host_.stack_bottom_, &self->host_.stack_size_);
#endif
  self->body_();
  self->finished_ = true;
  self->leave(true);
}

}  // namespace mqlab::sim
