#include "base/descriptor.h"

#include <unistd.h>

namespace mqlab {

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace mqlab
