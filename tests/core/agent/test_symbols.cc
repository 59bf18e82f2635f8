#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "agent/symbols.h"

namespace mqlab::agent {

TEST_CASE("functions are told by rising address, a module's among them, data and hidden addresses left out") {
  const std::string path = "/tmp/mqlab-kallsyms-" + std::to_string(getpid());
  std::ofstream(path) << "0000000000000000 T _text\n"
                         "ffffffff81000000 T _stext\n"
                         "ffffffff81000010 T second\n"
                         "ffffffff81000000 t first\n"
                         "ffffffff81000020 D data\n"
                         "0000000000000000 T hidden\n"
                         "broken\n"
                         "ffffffffc0000000 t of_module\t[ublk_drv]\n"
                         "ffffffff81000010 W alias\n";
  const std::string told = kernel_functions(path);
  const std::string begin = text_address(path);
  std::remove(path.c_str());
  CHECK(begin == "ffffffff81000000");
  CHECK(text_address("/nonexistent").empty());
  CHECK(told == "ffffffff81000000 _stext 0 first 10 second 0 alias 3efffff0 of_module");
  CHECK(kernel_functions("/nonexistent").empty());
}

}  // namespace mqlab::agent
