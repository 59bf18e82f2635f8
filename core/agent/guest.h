// mqlab-agent as init of a guest: mounts, loads modules, waits for quiet, runs the spec, reports, powers off.
//
// Being process 1 does not prove that this is a guest of ours: a pid namespace has one too. So the agent acts
// as init only where the kernel's command line says mqlab.init=1 and the root is a ramfs or tmpfs.
//
// Thread safety: called once, from main.
#pragma once

namespace mqlab::agent {

bool is_guest_init();

// Never returns: the guest powers off, also after a failure.
[[noreturn]] void run_as_guest_init();

}  // namespace mqlab::agent
