// Pages that are mapped for as long as their owner lives.
//
// Thread safety: as the memory itself, which stays where it is.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace mqlab {

// What mmap(2) is asked for; without a descriptor the pages are anonymous.
struct MappingRequest {
  std::size_t size_bytes = 0;
  int protection = 0;
  int flags = 0;
  int fd = -1;
  std::size_t offset_bytes = 0;
};

class Mapping {
 public:
  // Throws kSystem with "mapping `what`: ..." and the remedy.
  Mapping(const MappingRequest& request, const std::string& what, const std::string& remedy);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  Mapping(Mapping&&) = delete;
  Mapping& operator=(Mapping&&) = delete;

  std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

}  // namespace mqlab
