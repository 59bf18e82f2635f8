#include <doctest/doctest.h>

#include <regex>
#include <string>
#include <vector>

#include "agent/frames.h"
#include "base/error.h"

namespace mqlab::agent {

namespace {

std::vector<std::string> lines_of(std::string_view channel, const std::string& text, unsigned copies = 1) {
  std::vector<std::string> lines;
  FrameWriter writer([&lines](std::string_view line) { lines.emplace_back(line); });
  writer.send(channel, text, copies);
  return lines;
}

}  // namespace

TEST_CASE("the checksum is the IEEE one") {
  CHECK(crc32("123456789") == 0xcbf43926U);
  CHECK(crc32("") == 0U);
}

TEST_CASE("a message is one line with channel, number, place, checksum and text") {
  const auto lines = lines_of("stage", R"({"stage":"init"})");
  REQUIRE(lines.size() == 1);
  const std::regex form("@mqlab stage 0 0/1 [0-9a-f]{8} \\{\"stage\":\"init\"\\}\n");
  CHECK(std::regex_match(lines[0], form));
}

TEST_CASE("a long message is cut in chunks that together are the message, as often as asked") {
  std::string text(3 * kChunkBytes + 17, 'x');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 26);
  const auto lines = lines_of("result", text, 2);
  REQUIRE(lines.size() == 8);
  std::string together;
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(lines[i] == lines[i + 4]);
    const std::string head = "@mqlab result 0 " + std::to_string(i) + "/4 ";
    CHECK(lines[i].substr(0, head.size()) == head);
    together += lines[i].substr(head.size() + 9, lines[i].size() - head.size() - 10);
  }
  CHECK(together == text);
}

TEST_CASE("what would break a line is refused") {
  CHECK_THROWS_AS(lines_of("result", "two\nlines"), Error);
  CHECK_THROWS_AS(lines_of("result", "\x80"), Error);
}

}  // namespace mqlab::agent
