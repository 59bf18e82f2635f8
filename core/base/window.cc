#include "base/window.h"

// noinline keeps a call, and so an address; the empty asm differs, so that the two are not folded into one.
extern "C" {
[[gnu::noinline]] void mqlab_window_begin() noexcept { asm volatile("# window begins" ::: "memory"); }
[[gnu::noinline]] void mqlab_window_end() noexcept { asm volatile("# window ends" ::: "memory"); }
}
