// The functions of the running kernel and its modules, for whoever counts by address what it executes.
//
// Thread safety: functions without state.
#pragma once

#include <string>

namespace mqlab::agent {

// "DELTA NAME DELTA NAME ..." by rising address, each DELTA in hexadecimal from the address before. Empty where the
// kernel tells none (built without KALLSYMS, or hides addresses).
std::string kernel_functions(const std::string& kallsyms = "/proc/kallsyms");

// Where the kernel's code begins, in hexadecimal; empty where the kernel does not tell.
std::string text_address(const std::string& kallsyms = "/proc/kallsyms");

}  // namespace mqlab::agent
