#include "io/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <string>

#include "base/error.h"

namespace mqlab::io {

Memory::Memory(std::size_t size_bytes) {
  void* const address =
      mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (address == MAP_FAILED) {
    throw system_error("mapping " + std::to_string(size_bytes) + " bytes of buffers", errno,
                       "free memory, or ask for a smaller depth or block");
  }
  bytes_ = {static_cast<std::byte*>(address), size_bytes};
}

Memory::~Memory() { munmap(bytes_.data(), bytes_.size()); }

}  // namespace mqlab::io
