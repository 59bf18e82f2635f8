#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "plugin/block_table.h"

namespace mqlab::plugin {

namespace {

std::string written(BlockTable& table) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const out = open_memstream(&text, &size);
  table.write(out);
  std::fclose(out);
  std::string result(text, size);
  std::free(text);
  return result;
}

}  // namespace

TEST_CASE("a block is found again by address and length, and stays where it is") {
  BlockTable table;
  Block& first = table.block(0x10, 4);
  for (std::uint64_t i = 0; i < 10000; ++i) table.block(0x1000 + i, 1);
  CHECK(&table.block(0x10, 4) == &first);
  CHECK(&table.block(0x10, 5) != &first);
}

TEST_CASE("windows of one job add up, those of another are told apart, the rest counts for the boot alone") {
  BlockTable table;
  Block& old = table.block(0xa0, 3);
  old.runs = 7;
  table.user_instructions() = 100;
  table.begin_job();
  table.begin_window();
  old.runs += 2;
  table.block(0xb0, 5).runs += 1;
  table.user_instructions() += 10;
  table.end_window();
  old.runs += 50;
  table.begin_window();
  old.runs += 3;
  table.end_window();
  table.begin_job();
  table.begin_window();
  table.block(0xb0, 5).runs += 4;
  table.end_window();
  CHECK(written(table) ==
        "mqlab.counts/1\n"
        "boot 211 110\n"
        "job 2 10\n"
        "a0 3 5\n"
        "b0 5 1\n"
        "job 1 0\n"
        "b0 5 4\n");
}

TEST_CASE("what is executed after the end of the boot is in no sum") {
  BlockTable table;
  table.block(0x10, 2).runs = 3;
  table.user_instructions() = 5;
  table.begin_job();
  table.end_boot();
  table.block(0x10, 2).runs = 300;
  table.user_instructions() = 500;
  CHECK(written(table) == "mqlab.counts/1\nboot 6 5\njob 0 0\n");
}

TEST_CASE("a window that never ended is left out, and one outside of a job belongs to none") {
  BlockTable table;
  table.begin_window();
  table.block(0x10, 1).runs += 1;
  table.end_window();
  table.begin_job();
  table.end_window();
  table.begin_window();
  table.block(0x10, 1).runs += 1;
  CHECK(written(table) == "mqlab.counts/1\nboot 2 0\njob 0 0\n");
}

}  // namespace mqlab::plugin
