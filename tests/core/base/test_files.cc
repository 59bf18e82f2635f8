#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/mapping.h"
#include "base/text_file.h"

using mqlab::Descriptor;
using mqlab::Mapping;

namespace {

bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

}  // namespace

TEST_CASE("a descriptor is closed once, by the one that holds it last") {
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  REQUIRE(is_open(fd));
  {
    Descriptor first(fd);
    Descriptor second(std::move(first));
    CHECK(second.get() == fd);
    Descriptor third;
    CHECK_FALSE(third.is_open());
    third = std::move(second);
    CHECK(is_open(fd));
  }
  CHECK_FALSE(is_open(fd));
}

TEST_CASE("a mapping that cannot be made says what was mapped and what to do") {
  const Mapping pages({.size_bytes = 4096, .protection = PROT_READ | PROT_WRITE, .flags = MAP_PRIVATE | MAP_ANONYMOUS},
                      "a page", "free memory");
  CHECK(pages.bytes().size() == 4096);
  pages.bytes()[4095] = std::byte{7};
  try {
    const Mapping none({.size_bytes = 0, .protection = PROT_READ, .flags = MAP_PRIVATE | MAP_ANONYMOUS}, "nothing",
                       "ask for more");
    FAIL("nothing was mapped");
  } catch (const mqlab::Error& error) {
    CHECK(std::string(error.what()).starts_with("mapping nothing"));
    CHECK(error.remedy == "ask for more");
  }
}

TEST_CASE("a file is read whole, however long, and one that is not there is empty") {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("mqlab-text-" + std::to_string(getpid()));
  const std::string text = "first line\n" + std::string(200'000, 'x');
  std::ofstream(path) << text;
  CHECK(mqlab::text_of(path) == text);
  CHECK(mqlab::first_line_of(path) == "first line");
  std::filesystem::remove(path);
  CHECK(mqlab::text_of(path).empty());
  CHECK(mqlab::first_line_of(path).empty());
}
