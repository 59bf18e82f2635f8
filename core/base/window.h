// The measured window: the part of a run whose instructions are counted from outside of the guest.
//
// An observer that knows the addresses of the two functions (the plugin of the emulator) takes a snapshot of its
// counts when they are entered. Inside of the program they do nothing, so that a run is the same, to the last
// nanosecond, with and without an observer. A workload may open several windows, one after the other; their counts
// add up. It says how many operations they held in the counter "window_operations".
//
// Thread safety: windows do not nest or overlap; one thread opens and closes them.
#pragma once

extern "C" {
void mqlab_window_begin() noexcept;
void mqlab_window_end() noexcept;
}

namespace mqlab {

class MeasuredWindow {
 public:
  MeasuredWindow() noexcept { mqlab_window_begin(); }
  ~MeasuredWindow() { mqlab_window_end(); }
  MeasuredWindow(const MeasuredWindow&) = delete;
  MeasuredWindow& operator=(const MeasuredWindow&) = delete;
  MeasuredWindow(MeasuredWindow&&) = delete;
  MeasuredWindow& operator=(MeasuredWindow&&) = delete;
};

}  // namespace mqlab
