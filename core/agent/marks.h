// Where an observer outside of the guest looks: the functions that mark what the agent is at.
//
// base/window.h marks what a workload measures; mqlab_job_begin() marks the begin of each job, so that the windows
// of several jobs in one boot are told apart, and mqlab_all_done() the end of what is the same in every boot. The agent
// is a static program with fixed addresses.
//
// Thread safety: functions without state.
#pragma once

#include <nlohmann/json.hpp>

extern "C" {
void mqlab_job_begin() noexcept;
void mqlab_all_done() noexcept;
}

namespace mqlab::agent {

// {"job": ADDRESS, "begin": ADDRESS, "end": ADDRESS, "done": ADDRESS}, as hexadecimal text.
nlohmann::json mark_addresses();

}  // namespace mqlab::agent
