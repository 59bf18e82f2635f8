#include "io/memory.h"

#include <sys/mman.h>

#include <string>

namespace mqlab::io {

Memory::Memory(std::size_t size_bytes)
    : pages_({.size_bytes = size_bytes,
              .protection = PROT_READ | PROT_WRITE,
              .flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE},
             std::to_string(size_bytes) + " bytes of buffers", "free memory, or ask for a smaller depth or block") {}

}  // namespace mqlab::io
