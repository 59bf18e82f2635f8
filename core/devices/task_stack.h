// What a sleeping task waits for, out of the text of /proc/PID/stack.
//
// Thread safety: functions without state.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mqlab::devices {

// The functions of the text, the innermost first, without offsets and without the suffixes of the compiler's copies
// (".isra.0"). Lines of another form are left out.
std::vector<std::string> parse_stack(std::string_view text);

// The functions from the one that takes the lock, or waits, outwards: without the innermost ones that are the same for
// all who wait, as those of the scheduler and of the locks themselves. Empty when nothing else is there.
std::vector<std::string> wait_path(const std::vector<std::string>& stack);

// How many of `path`, from its beginning, say where the task waits: the rest, from the handling of the interrupt on,
// is the same for all irq threads.
std::size_t telling_part(const std::vector<std::string>& path);

}  // namespace mqlab::devices
