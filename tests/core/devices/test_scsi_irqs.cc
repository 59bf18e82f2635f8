// What is read out of proc and sysfs about a SCSI disk and its irq threads, on files written by hand.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "devices/irq_threads.h"
#include "devices/kernel_setting.h"
#include "devices/scsi_disk.h"
#include "devices/task_stack.h"

namespace mqlab::devices {

namespace {

namespace fs = std::filesystem;

class ScratchFolder {
 public:
  ScratchFolder() { REQUIRE(mkdtemp(path_.data()) != nullptr); }
  ~ScratchFolder() { fs::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string path(const std::string& name) const { return path_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(path(name)).parent_path());
    std::ofstream(path(name)) << text;
  }
  std::string text_of(const std::string& name) const {
    std::ifstream file(path(name));
    std::string line;
    std::getline(file, line);
    return line;
  }

 private:
  std::string path_ = (fs::temp_directory_path() / "mqlab-test-XXXXXX").string();
};

// A disk `name` of the host `number`, whose driver is on a PCI device with two interrupts; `deep` puts a virtio
// device between the two.
void make_disk(const ScratchFolder& sys, const std::string& name, int number, const std::string& driver, bool deep) {
  const std::string pci = "devices/pci/" + std::to_string(number);
  const std::string host = pci + (deep ? "/virtio0" : "") + "/host" + std::to_string(number);
  const std::string device = host + "/target/" + std::to_string(number) + ":0:0:0";
  sys.write(device + "/queue_depth", "128\n");
  sys.write(device + "/scsi_device/" + std::to_string(number) + ":0:0:0/dev", "");
  sys.write("class/scsi_host/host" + std::to_string(number) + "/proc_name", driver + "\n");
  sys.write(pci + "/msi_irqs/" + std::to_string(40 + number), "msix\n");
  sys.write(pci + "/msi_irqs/" + std::to_string(50 + number), "msix\n");
  sys.write("block/" + name + "/queue/scheduler", "none [mq-deadline] kyber\n");
  fs::create_symlink(sys.path(device), sys.path("block/" + name + "/device"));
  fs::create_symlink(sys.path(host), sys.path("class/scsi_host/host" + std::to_string(number) + "/device"));
}

constexpr const char* kWaitsForQueueLock =
    "[<0>] rtlock_slowlock_locked+0x2a1/0xa00\n"
    "[<0>] rt_spin_lock+0x5c/0xd0\n"
    "[<0>] blk_mq_run_hw_queue.part.0+0x77/0x120\n"
    "[<0>] blk_mq_run_hw_queues+0x42/0xe0\n"
    "[<0>] scsi_end_request+0x101/0x2c0 [scsi_mod]\n"
    "[<0>] irq_forced_thread_fn+0x2b/0x80\n"
    "[<0>] irq_thread+0x105/0x1f0\n"
    "[<0>] kthread+0xfb/0x230\n";

}  // namespace

TEST_CASE("a stack is told from its innermost function, without what all who wait have in common") {
  const std::vector<std::string> stack = parse_stack(kWaitsForQueueLock);
  CHECK(stack.size() == 8);
  CHECK(stack.front() == "rtlock_slowlock_locked");
  const std::vector<std::string> path = wait_path(stack);
  REQUIRE(path.size() == 6);
  CHECK(path[0] == "blk_mq_run_hw_queue");
  CHECK(path[2] == "scsi_end_request");
  CHECK(telling_part(path) == 3);
}

TEST_CASE("text that is no stack gives no function, and a stack of mere waiting no path") {
  CHECK(parse_stack("").empty());
  CHECK(parse_stack("Permission denied\n[<0> broken\n\n").empty());
  CHECK(wait_path(parse_stack("[<0>] schedule+0x1/0x2\n[<0>] rt_spin_lock+0x1/0x2\n")).empty());
  CHECK(telling_part({}) == 0);
  CHECK(parse_stack("[<0>] last_line_without_a_break").size() == 1);
}

TEST_CASE("irq threads are known by their names, states by the text after the name") {
  CHECK(irq_of_name("irq/27-virtio0-") == 27);
  CHECK_FALSE(irq_of_name("irq/27").has_value());
  CHECK_FALSE(irq_of_name("irq/-x").has_value());
  CHECK_FALSE(irq_of_name("kworker/0:1").has_value());
  CHECK(state_of_stat("12 (irq/27-virtio0-) D 2 0 0") == 'D');
  CHECK(state_of_stat("12 (odd) name)) S 2") == 'S');
  CHECK(state_of_stat("12 (cut)") == '?');
  CHECK(state_of_stat("") == '?');
}

TEST_CASE("only the threads of the given interrupts are looked at, and stacks are read of those in D") {
  const ScratchFolder proc;
  const auto task = [&](const std::string& pid, const std::string& name, char state) {
    proc.write(pid + "/comm", name + "\n");
    proc.write(pid + "/stat", pid + " (" + name + ") " + state + " 2 0\n");
    proc.write(pid + "/stack", kWaitsForQueueLock);
  };
  task("11", "irq/41-virtio0-", 'D');
  task("12", "irq/51-virtio0-", 'S');
  task("13", "irq/99-other", 'D');
  task("14", "kworker/0:1", 'D');
  const IrqThreads threads({41, 51}, proc.path(""));
  REQUIRE(threads.size() == 2);
  CHECK(threads.tells_stacks());
  std::size_t waiting = 0;
  for (const IrqThreadState& thread : threads.look()) {
    waiting += thread.state == 'D' ? 1 : 0;
    CHECK(thread.stack.empty() == (thread.state != 'D'));
  }
  CHECK(waiting == 1);
  proc.write("11/stat", "11 (irq/41-virtio0-) S 2 0\n");  // it goes on: the next look sees it
  for (const IrqThreadState& thread : threads.look()) CHECK(thread.state == 'S');
  CHECK(IrqThreads({7}, proc.path("")).size() == 0);
}

TEST_CASE("a disk is found by its driver, with the interrupts of its host's PCI device") {
  const ScratchFolder sys;
  make_disk(sys, "sda", 1, "ahci", false);
  make_disk(sys, "sdb", 2, "virtio_scsi", true);
  sys.write("block/ram0/size", "1\n");
  const ScsiDisk virtio = find_scsi_disk("virtio_scsi", sys.path(""));
  CHECK(virtio.name == "sdb");
  CHECK(virtio.irqs == std::set<unsigned>{42, 52});
  CHECK(read_setting(virtio.device_path + "/queue_depth") == "128");
  CHECK(find_scsi_disk("ahci", sys.path("")).irqs == std::set<unsigned>{41, 51});
  try {
    find_scsi_disk("scsi_debug", sys.path(""));
    FAIL("a disk was found that is not there");
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kUnsupported);
    CHECK(std::string(error.what()).find("but of ahci, virtio_scsi") != std::string::npos);
    CHECK_FALSE(error.remedy.empty());
  }
}

TEST_CASE("a setting gets back what it had, also the chosen one of a list") {
  const ScratchFolder folder;
  folder.write("scheduler", "none [mq-deadline] kyber\n");
  {
    const KernelSetting scheduler(folder.path("scheduler"), "none");
    CHECK(folder.text_of("scheduler") == "none");
    CHECK(scheduler.value() == "none");
  }
  CHECK(folder.text_of("scheduler") == "mq-deadline");
  CHECK_THROWS_AS(KernelSetting(folder.path("missing"), "1"), Error);
}

}  // namespace mqlab::devices
