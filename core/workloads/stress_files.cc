// Workers of a stress run that use the kernel's files: schedulers and nr_requests are changed, inflight and debugfs are
// read, CPUs are taken offline and brought back.
#include <algorithm>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "workloads/stress_worker.h"

namespace mqlab::workloads {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPause{2};
constexpr milliseconds kHotplugPause{50};
constexpr const char* kCpus = "/sys/devices/system/cpu";

std::string queue_of(const std::string& device) { return "/sys/block/" + device + "/queue"; }

// "none [mq-deadline] kyber" as names.
std::vector<std::string> schedulers_in(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::erase_if(word, [](char c) { return c == '[' || c == ']'; });
    names.push_back(word);
  }
  return names;
}

class Tuner final : public StressWorker {
 public:
  using StressWorker::StressWorker;

 protected:
  void turn() override {
    if (const auto device = pick_device()) {
      if (random_.below(2) == 0) {
        switch_scheduler(*device);
      } else {
        set_nr_requests(*device);
      }
    }
    std::this_thread::sleep_for(kPause);
  }

 private:
  void switch_scheduler(const std::string& device) {
    attempt(StressOp::kSwitchScheduler, [&] {
      const std::string path = queue_of(device) + "/scheduler";
      const auto names = schedulers_in(tree_.read(path));
      if (!names.empty()) tree_.write(path, names[random_.below(names.size())]);
    });
  }

  void set_nr_requests(const std::string& device) {
    attempt(StressOp::kSetNrRequests,
            [&] { tree_.write(queue_of(device) + "/nr_requests", std::to_string(4U << random_.below(7))); });
  }
};

class Reader final : public StressWorker {
 public:
  using StressWorker::StressWorker;

 protected:
  void turn() override {
    const auto device = pick_device();
    if (!device) {
      std::this_thread::sleep_for(kPause);
      return;
    }
    attempt(StressOp::kReadInflight, [&] { tree_.read("/sys/block/" + *device + "/inflight"); });
    const std::string debug = "/sys/kernel/debug/block/" + *device;
    for (const std::string& name : tree_.list(debug)) {
      if (!name.starts_with("hctx")) continue;
      const std::string folder = debug + '/' + name;
      attempt(StressOp::kReadBusy, [&] { tree_.read(folder + "/busy"); });
      attempt(StressOp::kReadTags, [&] {
        tree_.read(folder + "/tags");
        tree_.read(folder + "/sched_tags");
      });
    }
  }
};

class Hotplugger final : public StressWorker {
 public:
  using StressWorker::StressWorker;

 protected:
  void turn() override {
    if (options_.cpus > 1) {
      const unsigned cpu = 1 + static_cast<unsigned>(random_.below(options_.cpus - 1));
      if (std::ranges::count(offline_, cpu) == 0) {
        take_off(cpu);
      } else {
        bring_back(cpu);
      }
    }
    std::this_thread::sleep_for(kHotplugPause);
  }

  void take_back() override {
    const std::vector<unsigned> offline = offline_;
    for (const unsigned cpu : offline) {
      if (bring_back(cpu)) continue;
      throw Error(ErrorKind::kSystem, "CPU " + std::to_string(cpu) + " could not be brought back online",
                  "write 1 to " + file_of(cpu) + "; dmesg may say why it was refused");
    }
  }

 private:
  static std::string file_of(unsigned cpu) { return std::string(kCpus) + "/cpu" + std::to_string(cpu) + "/online"; }

  void take_off(unsigned cpu) {
    if (attempt(StressOp::kCpuOffline, [&] { tree_.write(file_of(cpu), "0"); })) offline_.push_back(cpu);
  }

  bool bring_back(unsigned cpu) {
    if (!attempt(StressOp::kCpuOnline, [&] { tree_.write(file_of(cpu), "1"); })) return false;
    std::erase(offline_, cpu);
    return true;
  }

  std::vector<unsigned> offline_;
};

}  // namespace

std::unique_ptr<StressWorker> make_tuner(const StressOptions& options, LiveDevices& live, Random random) {
  return std::make_unique<Tuner>(options, live, random);
}

std::unique_ptr<StressWorker> make_reader(const StressOptions& options, LiveDevices& live, Random random) {
  return std::make_unique<Reader>(options, live, random);
}

std::unique_ptr<StressWorker> make_hotplugger(const StressOptions& options, LiveDevices& live, Random random) {
  return std::make_unique<Hotplugger>(options, live, random);
}

}  // namespace mqlab::workloads
