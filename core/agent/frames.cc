#include "agent/frames.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/error.h"

namespace mqlab::agent {
namespace {

constexpr std::uint32_t kPolynomial = 0xedb88320U;

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value & 1U) != 0 ? (value >> 1U) ^ kPolynomial : value >> 1U;
    table[i] = value;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> kTable = make_table();

bool is_printable(char c) { return c >= ' ' && c <= '~'; }

}  // namespace

std::uint32_t crc32(std::string_view text) {
  std::uint32_t crc = 0xffffffffU;
  for (const char c : text) crc = (crc >> 8U) ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xffU];
  return crc ^ 0xffffffffU;
}

void FrameWriter::send(std::string_view channel, std::string_view text, unsigned copies) {
  if (!std::all_of(text.begin(), text.end(), is_printable)) {
    throw Error(ErrorKind::kInternal, "a framed message holds a byte that is no printable ASCII",
                "escape it (JSON with ASCII output does)");
  }
  const std::string message = std::to_string(next_message_++);
  const std::size_t count = std::max<std::size_t>(1, (text.size() + kChunkBytes - 1) / kChunkBytes);
  for (unsigned copy = 0; copy < copies; ++copy) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::string head =
          std::string(channel) + ' ' + message + ' ' + std::to_string(i) + '/' + std::to_string(count) + ' ';
      const std::string payload(text.substr(i * kChunkBytes, kChunkBytes));
      std::array<char, 9> crc{};
      std::snprintf(crc.data(), crc.size(), "%08x", crc32(head + payload));
      sink_("@mqlab " + head + crc.data() + ' ' + payload + '\n');
    }
  }
}

}  // namespace mqlab::agent
