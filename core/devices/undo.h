// What has to be undone, newest first: each step that makes something pushes how it is removed.
//
// Thread safety: none; an object belongs to one thread.
//
// Invariants: every undo is tried, also when an earlier one failed, so that one leftover does not become many. The
// destructor undoes what is left and swallows failures: it runs while something else fails.
#pragma once

#include <exception>
#include <functional>
#include <utility>
#include <vector>

namespace mqlab::devices {

// Whether the step ended without an exception: for what may fail and then is left as it is.
template <class F>
bool succeeds(F&& step) noexcept {
  try {
    step();
    return true;
  } catch (...) {
    return false;
  }
}

class UndoStack {
 public:
  using Undo = std::function<void()>;

  UndoStack() = default;
  ~UndoStack() { static_cast<void>(run()); }
  UndoStack(const UndoStack&) = delete;
  UndoStack& operator=(const UndoStack&) = delete;

  void push(Undo undo) { undos_.push_back(std::move(undo)); }

  // Undoes all; then throws the first failure, if there was one.
  void undo_all() {
    if (const std::exception_ptr failure = run()) std::rethrow_exception(failure);
  }

 private:
  std::exception_ptr run() noexcept {
    std::exception_ptr first;
    while (!undos_.empty()) {
      const Undo undo = std::move(undos_.back());
      undos_.pop_back();
      try {
        undo();
      } catch (...) {
        if (!first) first = std::current_exception();
      }
    }
    return first;
  }

  std::vector<Undo> undos_;
};

}  // namespace mqlab::devices
