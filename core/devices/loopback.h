// The loopback interface, which a guest without any init system of a distribution has to bring up itself.
//
// Thread safety: any thread may call.
#pragma once

namespace mqlab::devices {

// Does nothing where it is up already. Throws kUnsupported where there is no network or no right to change it.
void bring_loopback_up();

}  // namespace mqlab::devices
