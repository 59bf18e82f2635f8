// Framed messages over a serial line that the kernel writes to as well.
//
// A message is JSON text in printable ASCII, cut in chunks; each chunk is one line
//
//     @mqlab CHANNEL MESSAGE INDEX/COUNT CRC32 PAYLOAD
//
// with the CRC-32 (IEEE, eight hex digits) over "CHANNEL MESSAGE INDEX/COUNT PAYLOAD". A kernel message may
// stand between lines, which does no harm, or cut one, which the checksum shows; what must arrive is sent
// more than once and the reader takes the good copy of each chunk. The reader is pyapi/mqlab/vm/frames.py.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace mqlab::agent {

std::uint32_t crc32(std::string_view text);

// Short enough that a line stays whole in the console's buffers, long enough that headers are few.
inline constexpr std::size_t kChunkBytes = 480;

class FrameWriter {
 public:
  using Sink = std::function<void(std::string_view)>;

  // Two writers on one line number their messages from different starts, so that these do not mix.
  explicit FrameWriter(Sink sink, unsigned first_message = 0) : sink_(std::move(sink)), next_message_(first_message) {}

  // Throws kInternal when the text holds anything but printable ASCII.
  void send(std::string_view channel, std::string_view text, unsigned copies = 1);

 private:
  Sink sink_;
  unsigned next_message_;
};

}  // namespace mqlab::agent
