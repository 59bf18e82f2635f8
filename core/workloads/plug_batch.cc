// plug_batch: reads in batches under a plug, and what it costs when a batch of tags comes back partial.
//
// In sim, threads read as t/io_uring or fio does from SSDs that are polled, or from a ublk server that holds requests
// back and so fragments the bitmap. In native, the same reader and the same tags run on real threads against that
// server; what is measured there is the allocation, all else is not there.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/error.h"
#include "platform/native/platform.h"
#include "platform/sim/platform.h"
#include "workloads/builtin.h"
#include "workloads/plug_batch_reader.h"
#include "workloads/sim_spec.h"

namespace mqlab::workloads {

namespace {

using platform::Cost;
using Sim = sim::Platform;
using Native = native::Platform;

constexpr unsigned kWarmUpPart = 10;  // a tenth of the reads comes before the measuring
constexpr std::uint64_t kDeviceStream = 0x64657669636573;

struct Settings {
  std::string device;
  unsigned devices, queues, tags, threads, cpus_allowed, held_back;
  std::uint64_t ios, seed;
  ReaderConfig reader;
};

Settings settings_of(const Json& spec) {
  const Json& params = spec.at("params");
  const Json& policies = spec.at("policies");
  const auto number = [&](const char* name) { return params.at(name).get<unsigned>(); };
  Settings s{};
  s.device = params.at("device").get<std::string>();
  s.devices = number("devices");
  s.queues = number("queues");
  s.tags = number("tags");
  s.threads = number("threads");
  s.cpus_allowed = number("cpus_allowed");
  s.ios = params.at("ios").get<std::uint64_t>();
  s.seed = spec.at("seed").get<std::uint64_t>();
  s.reader.kind = params.at("reader") == "fio" ? ReaderKind::kFio : ReaderKind::kTIoUring;
  s.reader.depth = number("depth");
  s.reader.batch = number("batch");
  s.reader.reap = number("reap");
  s.reader.refill_at = number("refill_at");
  // The reader must get what it waits for.
  s.held_back = std::min(number("held_back"), s.reader.depth - std::min(s.reader.depth, s.reader.reap));
  s.reader.policy.plug_retry = policies.at("batch_retry") == "on";
  s.reader.policy.batch_loop = policies.at("batch_loop") == "on";
  return s;
}

void check(const Settings& s) {
  const auto reject = [](const std::string& what, const std::string& remedy) {
    throw Error(ErrorKind::kUsage, what, remedy);
  };
  const std::string depth = std::to_string(s.reader.depth);
  if (s.reader.depth > s.tags)
    reject("params.depth: " + depth + " reads in flight, but only " + std::to_string(s.tags) + " tags",
           "give at most as many as there are tags");
  if (s.reader.batch > s.reader.depth || s.reader.reap > s.reader.depth || s.reader.refill_at >= s.reader.depth)
    reject("params: batch and reap must not be above depth (" + depth + "), refill_at must be below it",
           "give a larger depth");
}

ReadTimes read_times(const std::string& device) {
  const auto cost = [](Cost which) { return Sim::cost_ns(which); };
  if (device == "optane")
    return {cost(Cost::kOptaneRead), cost(Cost::kOptaneReadSpread), 0, cost(Cost::kOptaneSlowOneIn),
            cost(Cost::kOptaneSlowFactor)};
  const Cost interval = device == "gen3_ssd"   ? Cost::kGen3SsdInterval
                        : device == "gen4_ssd" ? Cost::kGen4SsdInterval
                                               : Cost::kGen5SsdInterval;
  return {cost(Cost::kNandRead), cost(Cost::kNandReadSpread), cost(interval)};
}

/// Everything that threads read from. On ublk each thread has a device and a server of its own.
template <class P>
class Load {
 public:
  explicit Load(const Settings& settings, const ReadTimes& times) {
    Random random(settings.seed ^ kDeviceStream);
    const bool ublk = settings.device == "ublk";
    for (unsigned i = 0; i < (ublk ? 0 : settings.devices); ++i)
      devices_.push_back(std::make_unique<TimedDevice<P>>(times, settings.queues, settings.tags, random.split()));
    for (unsigned i = 0; i < (ublk ? settings.threads : 0); ++i) {
      servers_.push_back(std::make_unique<HoldBack<P>>(settings.held_back, random.split()));
      queues_.push_back(std::make_unique<DeviceQueue<P>>(settings.tags, servers_.back().get()));
    }
  }

  /// As t/io_uring deals out its files: each thread every so-manieth device, or one that it shares.
  std::vector<ReaderFile<P>> files_of(unsigned thread, unsigned threads, unsigned cpu) {
    std::vector<ReaderFile<P>> files;
    if (!servers_.empty()) {
      files.push_back({.queue = queues_[thread].get(), .server = servers_[thread].get()});
      return files;
    }
    const auto count = static_cast<unsigned>(devices_.size());
    for (unsigned i = thread % count; i < count; i += threads)
      files.push_back({.queue = &devices_[i]->queue_of(cpu), .device = devices_[i].get()});
    return files;
  }

 private:
  std::vector<std::unique_ptr<TimedDevice<P>>> devices_;
  std::vector<std::unique_ptr<HoldBack<P>>> servers_;
  std::vector<std::unique_ptr<DeviceQueue<P>>> queues_;
};

ReaderCounts sum_of(const std::vector<ReaderCounts>& parts) {
  ReaderCounts sum;
  for (const ReaderCounts& part : parts) {
    sum.ios += part.ios;
    sum.alloc_ns += part.alloc_ns;
    sum.alloc.calls += part.alloc.calls;
    sum.alloc.batch_tries += part.alloc.batch_tries;
    sum.alloc.partial_tries += part.alloc.partial_tries;
    sum.alloc.empty_tries += part.alloc.empty_tries;
    sum.alloc.singles += part.alloc.singles;
    sum.alloc.requests += part.alloc.requests;
    sum.alloc.unused += part.alloc.unused;
  }
  return sum;
}

Json result_of(const ReaderCounts& sum) {
  const auto per_io = [&](std::uint64_t count) { return static_cast<double>(count) / static_cast<double>(sum.ios); };
  const double tries = static_cast<double>(std::max<std::uint64_t>(1, sum.alloc.batch_tries));
  return {{"samples",
           {{"allocations_per_io", {per_io(sum.alloc.calls)}},
            {"alloc_ns_per_io", {per_io(sum.alloc_ns)}},
            {"partial_share", {static_cast<double>(sum.alloc.partial_tries) / tries}}}},
          {"counters",
           {{"ios", sum.ios},
            {"alloc_calls", sum.alloc.calls},
            {"batch_tries", sum.alloc.batch_tries},
            {"partial_tries", sum.alloc.partial_tries},
            {"empty_tries", sum.alloc.empty_tries},
            {"single_tags", sum.alloc.singles},
            {"unused_requests", sum.alloc.unused}}},
          {"notes", Json::array()}};
}

/// The readers of one simulation and the window in which they are measured.
class SimRun {
 public:
  SimRun(const Settings& settings, unsigned cpus)
      : settings_(settings), load_(settings, settings.device == "ublk" ? ReadTimes{} : read_times(settings.device)) {
    cpus_ = std::min({cpus, settings.cpus_allowed, settings.threads});
    for (unsigned i = 0; i < settings.threads; ++i)
      readers_.push_back(
          std::make_unique<Reader<Sim>>(settings.reader, load_.files_of(i, settings.threads, i % cpus_), true));
  }

  void measure() {
    std::vector<Sim::thread> tasks;
    for (unsigned i = 0; i < settings_.threads; ++i)
      tasks.push_back(Sim::spawn({.name = "reader", .cpu = static_cast<int>(i % cpus_)}, [this, i] { read(i); }));
    for (const auto task : tasks) Sim::join(task);
  }

  Json result(bool counts_instructions) const {
    Json result = result_of(sum_of(measured_));
    const auto window_ns = static_cast<double>(end_ns_ - start_ns_);
    const auto ios = result.at("counters").at("ios").get<double>();
    const double alloc_ns = result.at("samples").at("alloc_ns_per_io").at(0).get<double>() * ios;
    result["samples"]["iops"] = {ios * 1e9 / window_ns};
    result["samples"]["cpu_share_alloc_percent"] = {100 * alloc_ns / (window_ns * cpus_)};
    if (counts_instructions) result["samples"]["instructions_per_io"] = {window_ns / ios};
    return result;
  }

 private:
  void read(unsigned index) {
    Reader<Sim>& reader = *readers_[index];
    const std::uint64_t warm_up = settings_.ios / kWarmUpPart;
    while (submitted_ < warm_up + settings_.ios) {
      submitted_ += reader.turn();
      if (submitted_ >= warm_up && start_ns_ == 0) open_window();
      if (submitted_ >= warm_up + settings_.ios && end_ns_ == 0) close_window();
    }
    reader.drain();
  }
  void open_window() {
    for (const auto& reader : readers_) reader->counts() = {};
    start_ns_ = Sim::now_ns();
  }
  void close_window() {
    end_ns_ = Sim::now_ns();
    for (const auto& reader : readers_) measured_.push_back(reader->counts());
  }

  const Settings settings_;
  Load<Sim> load_;
  unsigned cpus_ = 1;
  std::vector<std::unique_ptr<Reader<Sim>>> readers_;
  std::vector<ReaderCounts> measured_;
  std::uint64_t submitted_ = 0;
  std::uint64_t start_ns_ = 0;
  std::uint64_t end_ns_ = 0;
};

Json run_sim(const Json& spec, const Settings& settings) {
  sim::Machine machine(machine_config(spec));
  std::unique_ptr<SimRun> run;  // outlives the machine's tasks and not the machine
  machine.run([&] {
    run = std::make_unique<SimRun>(settings, machine.nr_cpus());
    run->measure();
  });
  Json result = run->result(spec.at("profile").at("name") == "guest");
  result["counters"]["scheduling_points"] = machine.scheduling_points();
  result["counters"]["context_switches"] = machine.context_switches();
  return result;
}

ReaderCounts read_native(const Settings& settings, Load<Native>& load, unsigned index, std::atomic<bool>& stop) {
  Reader<Native> reader(settings.reader, load.files_of(index, settings.threads, index), false);
  const std::uint64_t share = settings.ios / settings.threads;
  for (std::uint64_t done = 0; done < share / kWarmUpPart && !stop;) done += reader.turn();
  reader.counts() = {};
  while (reader.counts().ios < share && !stop) {
    reader.turn();
    if (cancel_requested()) stop = true;
  }
  const ReaderCounts counts = reader.counts();
  reader.drain();
  return counts;
}

Json run_native(const Settings& settings) {
  if (settings.device != "ublk")
    throw Error(ErrorKind::kUnsupported, "native has no " + settings.device + ": it measures the tags, not a device",
                "run the held-back cases, or target sim");
  Load<Native> load(settings, {});
  std::vector<ReaderCounts> measured(settings.threads);
  std::vector<Native::thread> threads;
  std::atomic<bool> stop{false};
  for (unsigned i = 0; i < settings.threads; ++i)
    threads.push_back(
        Native::spawn({.name = "reader"}, [&, i] { measured[i] = read_native(settings, load, i, stop); }));
  for (auto& thread : threads) Native::join(thread);
  throw_if_cancelled();
  Json result = result_of(sum_of(measured));
  result["notes"].push_back(
      "alloc_ns_per_io is measured: allocation and plug, without a device and without the I/O path");
  return result;
}

Json run(const Json& spec) {
  const Settings settings = settings_of(spec);
  check(settings);
  Json result = spec.at("target") == "native" ? run_native(settings) : run_sim(spec, settings);
  if (settings.held_back < spec.at("params").at("held_back").get<unsigned>())
    result["notes"].push_back("only " + std::to_string(settings.held_back) +
                              " requests are held back: the reader waits for the others");
  return result;
}

}  // namespace

Workload plug_batch_workload() {
  return {.name = "plug_batch",
          .help = "Reads in batches under a plug; what is done about a batch of tags that came back partial as policy.",
          .targets = {"sim", "native"},
          .run = run,
          .defaults = {{"hz", 1000},
                       {"cpus", 16},
                       {"device", "ublk"},
                       {"devices", 1},
                       {"queues", 16},
                       {"tags", 128},
                       {"reader", "t_io_uring"},
                       {"threads", 1},
                       {"cpus_allowed", 256},
                       {"depth", 128},
                       {"batch", 32},
                       {"reap", 32},
                       {"refill_at", 32},
                       {"held_back", 0},
                       {"ios", 50000}},
          .params = {{.name = "hz", .min = 100, .max = 1000},
                     {.name = "cpus", .min = 1, .max = 256},
                     {.name = "device", .choices = {"ublk", "gen3_ssd", "gen4_ssd", "gen5_ssd", "optane"}},
                     {.name = "devices", .min = 1, .max = 64},
                     {.name = "queues", .min = 1, .max = 256},
                     {.name = "tags", .min = 1, .max = 10240},
                     {.name = "reader", .choices = {"t_io_uring", "fio"}},
                     {.name = "threads", .min = 1, .max = 256},
                     {.name = "cpus_allowed", .min = 1, .max = 256},
                     {.name = "depth", .min = 1, .max = 10240},
                     {.name = "batch", .min = 1, .max = 10240},
                     {.name = "reap", .min = 1, .max = 10240},
                     {.name = "refill_at", .min = 0, .max = 10240},
                     {.name = "held_back", .min = 0, .max = 10240},
                     {.name = "ios", .min = 1000, .max = 1e9}},
          .policies = {{.name = "batch_retry", .choices = {"off", "on"}},
                       {.name = "batch_loop", .choices = {"off", "on"}}}};
}

}  // namespace mqlab::workloads
