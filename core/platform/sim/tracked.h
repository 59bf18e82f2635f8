// Object lifetimes in the simulated machine: a use after free is reported where it happens, with the seed that replays
// it, whether or not a sanitizer runs.
//
// Thread safety: of one machine.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "platform/sim/machine.h"

namespace mqlab::sim {

/// The machine's objects, one bit each; ids are never used twice.
class LifetimeTable {
 public:
  std::size_t born() {
    alive_.push_back(true);
    return alive_.size() - 1;
  }
  void died(std::size_t id) { alive_[id] = false; }
  bool alive(std::size_t id) const { return alive_[id]; }

  static LifetimeTable& current() {
    thread_local LifetimeTable table;
    return table;
  }

 private:
  std::vector<bool> alive_;
};

/// A pointer that may be copied to readers and freed by one owner. Not reference counted: freeing early is the fault
/// that it is there to report.
template <class T>
class Tracked {
 public:
  Tracked() = default;

  template <class... Args>
  static Tracked make(const char* name, Args&&... args) {
    Tracked pointer;
    pointer.object_ = new T(std::forward<Args>(args)...);
    pointer.id_ = LifetimeTable::current().born();
    pointer.name_ = name;
    return pointer;
  }

  /// Frees the object; other copies of the pointer must not be used any more, which `->` checks.
  void free() {
    check("free");
    LifetimeTable::current().died(id_);
    delete object_;
    object_ = nullptr;
  }

  /// As free() for the checks, but the memory goes to the caller: for faults on purpose.
  std::unique_ptr<T> bury() {
    check("free");
    LifetimeTable::current().died(id_);
    return std::unique_ptr<T>(std::exchange(object_, nullptr));
  }

  T* operator->() const {
    check("use");
    return object_;
  }
  T& operator*() const {
    check("use");
    return *object_;
  }
  explicit operator bool() const { return object_ != nullptr; }
  bool operator==(const Tracked& other) const { return object_ == other.object_; }

 private:
  void check(const char* what) const {
    if (object_ != nullptr && LifetimeTable::current().alive(id_)) return;
    report(what);
  }
  [[noreturn]] void report(const char* what) const {
    Machine& machine = Machine::current();
    const std::string task = machine.in_task() ? machine.current_task()->name() : "an interrupt";
    throw Error(ErrorKind::kViolation,
                std::string(what) + " after free of " + (name_ != nullptr ? name_ : "a null pointer") + " by " + task +
                    " on CPU " + std::to_string(machine.this_cpu()) + " at " + std::to_string(machine.now_ns()) +
                    " ns (seed " + std::to_string(machine.seed()) + ")",
                "run the same workload, policies and seed again to replay it");
  }

  T* object_ = nullptr;
  std::size_t id_ = 0;
  const char* name_ = nullptr;
};

}  // namespace mqlab::sim
