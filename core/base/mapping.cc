#include "base/mapping.h"

#include <sys/mman.h>

#include <cerrno>

#include "base/error.h"

namespace mqlab {

Mapping::Mapping(const MappingRequest& request, const std::string& what, const std::string& remedy) {
  void* const address = mmap(nullptr, request.size_bytes, request.protection, request.flags, request.fd,
                             static_cast<off_t>(request.offset_bytes));
  if (address == MAP_FAILED) throw system_error("mapping " + what, errno, remedy);
  bytes_ = {static_cast<std::byte*>(address), request.size_bytes};
}

Mapping::~Mapping() { munmap(bytes_.data(), bytes_.size()); }

}  // namespace mqlab
