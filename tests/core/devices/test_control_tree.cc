#include <doctest/doctest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "devices/control_tree.h"
#include "devices/undo.h"

namespace mqlab::devices {

namespace {

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("mqlab-tree-" + std::to_string(getpid()))) {
    std::filesystem::create_directory(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("the kernel's files are made, written, read, listed and removed") {
  const Folder folder;
  KernelTree tree;
  tree.make_folder(folder / "b");
  std::ofstream(folder / "b/attribute") << "old\n\n";
  CHECK(tree.read(folder / "b/attribute") == "old");
  tree.write(folder / "b/attribute", "new");
  CHECK(tree.read(folder / "b/attribute").starts_with("new"));
  tree.make_link(folder / "a", folder / "b");
  CHECK(tree.list(folder / "") == std::vector<std::string>{"a", "b"});
  CHECK(tree.exists(folder / "a/attribute"));
  tree.remove_link(folder / "a");
  CHECK_FALSE(tree.exists(folder / "a"));
  std::filesystem::remove(folder / "b/attribute");
  tree.remove_folder(folder / "b");
  CHECK_FALSE(tree.exists(folder / "b"));
}

TEST_CASE("what is gone already is removed, and has no names in it") {
  const Folder folder;
  KernelTree tree;
  tree.remove_folder(folder / "none");
  tree.remove_link(folder / "none");
  CHECK(tree.list(folder / "none").empty());
}

TEST_CASE("a refused step says what was tried on which path, and the answer") {
  const Folder folder;
  KernelTree tree;
  try {
    tree.write(folder / "none", "1");
    FAIL("written");
  } catch (const Error& error) {
    CHECK(error.os_errno == ENOENT);
    CHECK(std::string(error.what()).find(folder / "none") != std::string::npos);
    CHECK_FALSE(error.remedy.empty());
  }
  tree.make_folder(folder / "full");
  tree.make_folder(folder / "full/inner");
  CHECK_THROWS_AS(tree.remove_folder(folder / "full"), Error);
  CHECK_THROWS_AS(tree.make_folder(folder / "full"), Error);
}

TEST_CASE("undoing goes backwards, tries all and throws the first failure") {
  std::string order;
  {
    UndoStack undo;
    undo.push([&] { order += 'a'; });
    undo.push([&] {
      order += 'b';
      throw Error(ErrorKind::kSystem, "b failed");
    });
    undo.push([&] { order += 'c'; });
    CHECK_THROWS_WITH_AS(undo.undo_all(), "b failed", Error);
    CHECK(order == "cba");
  }
  CHECK(order == "cba");  // nothing is undone twice
  {
    UndoStack undo;
    undo.push([&] { order += 'd'; });
  }
  CHECK(order == "cbad");
}

}  // namespace mqlab::devices
