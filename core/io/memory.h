// Pages of memory that the kernel reads into.
//
// Not from the heap: a read that is in flight when its owner gives up still writes to its pages, which the kernel
// holds; heap memory could be somebody else's by then.
//
// Thread safety: none needed; the memory stays where it is.
#pragma once

#include <cstddef>
#include <span>

#include "base/mapping.h"

namespace mqlab::io {

class Memory {
 public:
  // Zeroed and page aligned. Throws kSystem when there is none.
  explicit Memory(std::size_t size_bytes);

  std::span<std::byte> bytes() const noexcept { return pages_.bytes(); }

 private:
  Mapping pages_;
};

}  // namespace mqlab::io
