#include "devices/loopback.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/descriptor.h"
#include "base/error.h"

namespace mqlab::devices {
namespace {

constexpr const char* kName = "lo";

[[noreturn]] void fail(const char* what, int err) {
  throw Error(ErrorKind::kUnsupported, std::string(what) + " was answered with: " + std::strerror(err),
              "use a kernel with CONFIG_INET, and run as root or bring lo up (ip link set lo up)", err);
}

}  // namespace

void bring_loopback_up() {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) fail("making a socket", errno);
  ifreq request{};
  std::strncpy(request.ifr_name, kName, sizeof request.ifr_name - 1);
  if (ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) fail("asking for the state of lo", errno);
  if ((request.ifr_flags & IFF_UP) != 0) return;
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP | IFF_RUNNING);
  if (ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) fail("bringing lo up", errno);
}

}  // namespace mqlab::devices
