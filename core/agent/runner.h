// Runs the jobs of a spec document and makes the result document.
//
// Spec:   {"format": "mqlab.agent/1", "jobs": [{"workload": NAME, "spec": {...}}],
//          "modules": [{"path": ..., "params": ...}], "quiet": {"window_ms", "idle_share", "windows",
//          "limit_ms"}, "limit_ms": of the guest's time for all of it,
//          "symbols": whether to tell the kernel's functions (symbols.h) when the jobs are done,
//          "shell": {"program", "command", "term", "rows", "columns"} for a prompt in place of all else}
// Result: {"format": "mqlab.agent/1", "machine": {...}, "jobs": [JOB, ...]} where JOB is
//         {"workload", "ok": true, "samples", "counters", "notes"} or
//         {"workload", "ok": false, "error": {"kind", "message", "remedy"}}.
// `modules`, `quiet`, `limit_ms`, `symbols` and `shell` are for a guest; a program ignores them. New keys may be added,
// none changes its meaning.
//
// Thread safety: functions without state.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace mqlab::agent {

inline constexpr const char* kFormat = "mqlab.agent/1";

// Throws kUsage when the text is no spec document.
nlohmann::json parse_spec(const std::string& text);

// One job's failure does not end the others.
nlohmann::json run_jobs(const nlohmann::json& spec);

// What a comparison must know of the machine: kernel release, CPUs, memory, clock source.
nlohmann::json describe_machine();

nlohmann::json describe_exception(const std::exception& error);

// Text for a frame or a file: ASCII, no line breaks, damaged UTF-8 replaced.
std::string to_text(const nlohmann::json& document);

}  // namespace mqlab::agent
