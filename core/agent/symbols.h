// The functions of the running kernel and its modules, for whoever counts by address what it executes.
//
// Thread safety: a function without state.
#pragma once

#include <string>

namespace mqlab::agent {

// "DELTA NAME DELTA NAME ..." by rising address, each DELTA in hexadecimal from the address before. Empty where the
// kernel tells none (built without KALLSYMS, or hides addresses).
std::string kernel_functions(const std::string& kallsyms = "/proc/kallsyms");

}  // namespace mqlab::agent
