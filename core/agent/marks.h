// Where an observer outside of the guest looks: the functions that mark what the agent is at.
//
// base/window.h marks what a workload measures; mqlab_job_begin() marks the begin of each job, so that the windows
// of several jobs in one boot are told apart. The agent is a static program with fixed addresses.
//
// Thread safety: functions without state.
#pragma once

#include <nlohmann/json.hpp>

extern "C" void mqlab_job_begin() noexcept;

namespace mqlab::agent {

// {"job": ADDRESS, "begin": ADDRESS, "end": ADDRESS}, as hexadecimal text.
nlohmann::json mark_addresses();

}  // namespace mqlab::agent
