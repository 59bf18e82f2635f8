#include "devices/null_blk.h"

#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <sstream>

#include "base/error.h"

namespace mqlab::devices {
namespace {

constexpr unsigned kMaxDepth = 10240;
constexpr unsigned kMinBlockBytes = 512;
constexpr unsigned kMaxBlockBytes = 4096;

std::string folder() { return std::string(kConfigfs) + "/nullb"; }
std::string folder_of(const std::string& name) { return folder() + '/' + name; }

void check_range(const char* what, std::uint64_t value, std::uint64_t min, std::uint64_t max, const char* why) {
  if (value >= min && value <= max) return;
  throw Error(ErrorKind::kUsage, std::string("null_blk: ") + what + " of " + std::to_string(value) + " is not possible",
              "give " + std::to_string(min) + " to " + std::to_string(max) + why);
}

std::set<std::string> words_of(const std::string& list) {
  std::set<std::string> words;
  std::istringstream text(list);
  for (std::string word; std::getline(text, word, ',');) words.insert(word);
  return words;
}

}  // namespace

NullBlkDriver::NullBlkDriver(ControlTree& tree) : tree_(&tree) {
  if (!tree.exists(kConfigfs)) {
    throw Error(ErrorKind::kUnsupported, std::string("there is no configfs at ") + kConfigfs,
                "use a kernel with CONFIG_CONFIGFS_FS");
  }
  if (!tree.exists(folder())) {
    throw Error(ErrorKind::kUnsupported, "null_blk is not in configfs: there is no " + folder(),
                "load the module null_blk (CONFIG_BLK_DEV_NULL_BLK) and mount configfs on " + std::string(kConfigfs));
  }
  features_ = words_of(tree.read(folder() + "/features"));
}

void NullBlkDriver::check(const NullBlkOptions& options, unsigned cpus) {
  check_range("a number of queues", options.queues, 1, cpus, ": a queue needs a CPU");
  check_range("a queue depth", options.depth, 1, kMaxDepth, "");
  check_range("a block size", options.block_bytes, kMinBlockBytes, kMaxBlockBytes, ", a power of two");
  check_range("a size in MiB", options.size_mib, 1, 1ULL << 40U, "");
  if (!std::has_single_bit(options.block_bytes)) {
    throw Error(ErrorKind::kUsage,
                "null_blk: a block size of " + std::to_string(options.block_bytes) + " is not possible",
                "give 512, 1024, 2048 or 4096");
  }
}

void NullBlkDriver::set(const std::string& name, const char* attribute, const std::string& value) {
  const std::string path = folder_of(name) + '/' + attribute;
  if (!tree_->exists(path)) {
    throw Error(
        ErrorKind::kUnsupported,
        std::string("the null_blk of this kernel has no attribute ") + attribute + " (there is no " + path + ")",
        "use a newer kernel, or leave the parameter at its default");
  }
  tree_->write(path, value);
}

void NullBlkDriver::create(const std::string& name, const NullBlkOptions& options) {
  const NullBlkOptions usual;
  tree_->make_folder(folder_of(name));
  try {
    set(name, "submit_queues", std::to_string(options.queues));
    set(name, "hw_queue_depth", std::to_string(options.depth));
    set(name, "size", std::to_string(options.size_mib));
    set(name, "blocksize", std::to_string(options.block_bytes));
    if (options.memory_backed != usual.memory_backed) set(name, "memory_backed", "1");
    set(name, "power", "1");
  } catch (...) {
    tree_->remove_folder(folder_of(name));
    throw;
  }
}

void NullBlkDriver::destroy(const std::string& name) {
  power_off(name);
  remove(name);
}

void NullBlkDriver::power_off(const std::string& name) {
  try {
    tree_->write(folder_of(name) + "/power", "0");
  } catch (const Error& error) {
    if (error.os_errno != ENOENT) throw;
  }
}

void NullBlkDriver::remove(const std::string& name) { tree_->remove_folder(folder_of(name)); }

std::string NullBlkDriver::fresh_name() {
  static std::atomic<std::uint64_t> next{0};
  return "mqlab-null-" + std::to_string(getpid()) + '-' + std::to_string(next.fetch_add(1, std::memory_order_relaxed));
}

}  // namespace mqlab::devices
