// The threads that handle interrupts (on PREEMPT_RT, or with threadirqs), and what they are doing at a moment.
//
// Thread safety: one thread looks; the threads looked at are the kernel's. A look takes a read for each of them, of
// files that stay open, and is no snapshot: a thread may go on between two reads. So a stack counts only when its
// thread was seen asleep before and after it was read.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace mqlab::devices {

struct IrqThreadState {
  char state = '?';                // as in /proc/PID/stat: R running, S sleeping, D waiting for a lock or for I/O
  std::vector<std::string> stack;  // of a thread in D, innermost first; empty where it could not be read
};

// The interrupt in the name of an irq thread, "irq/27-virtio0-": 27.
std::optional<unsigned> irq_of_name(std::string_view name);

// The state in the text of /proc/PID/stat; '?' when it has another form.
char state_of_stat(std::string_view text);

class IrqThreads {
 public:
  // Those of the given interrupts. `proc` is where proc is mounted.
  explicit IrqThreads(const std::set<unsigned>& irqs, const std::string& proc = "/proc");
  ~IrqThreads();
  IrqThreads(const IrqThreads&) = delete;
  IrqThreads& operator=(const IrqThreads&) = delete;

  std::size_t size() const noexcept { return threads_.size(); }

  // Whether the kernel tells stacks (CONFIG_STACKTRACE, and root asks).
  bool tells_stacks() const;

  // The states of all, and the stacks of those in D.
  std::vector<IrqThreadState> look() const;

 private:
  struct Files;
  std::vector<std::unique_ptr<Files>> threads_;
};

}  // namespace mqlab::devices
