#include "agent/guest.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "agent/frames.h"
#include "agent/marks.h"
#include "agent/quiet.h"
#include "agent/runner.h"
#include "agent/symbols.h"
#include "agent/watchdog.h"
#include "base/error.h"
#include "base/text_file.h"

namespace mqlab::agent {
namespace {

using Json = nlohmann::json;

constexpr const char* kSpecPath = "/mqlab/spec.json";
constexpr const char* kLinePath = "/dev/ttyS0";
// What the host must not lose is sent twice: a kernel message can cut one copy of a line.
constexpr unsigned kCopies = 2;
constexpr unsigned kWatchdogMessages = 1000000;

// Numbers of syslog(2), which glibc leaves without names.
constexpr int kSyslogReadAll = 3;
constexpr int kSyslogConsoleOff = 6;
constexpr int kSyslogSizeBuffer = 10;

bool has_word(const std::string& line, std::string_view word) {
  const std::string padded = ' ' + line.substr(0, line.find('\n')) + ' ';
  return padded.find(' ' + std::string(word) + ' ') != std::string::npos;
}

bool is_memory_root() {
  struct statfs root{};
  if (statfs("/", &root) != 0) return false;
  return root.f_type == RAMFS_MAGIC || root.f_type == TMPFS_MAGIC;
}

// Reads the command line through a proc of our own, so that nothing of a host's is covered.
std::string kernel_command_line() {
  std::string line = text_of("/proc/cmdline");
  if (!line.empty()) return line;
  const char* const place = "/mqlab/proc";
  mkdir(place, 0755);
  if (mount("proc", place, "proc", MS_RDONLY, nullptr) != 0) return {};
  line = text_of("/mqlab/proc/cmdline");
  umount(place);
  return line;
}

void mount_at(const char* type, const char* path, bool required) {
  mkdir(path, 0755);
  if (mount(type, path, type, 0, nullptr) == 0 || errno == EBUSY || !required) return;
  throw system_error(std::string("mounting ") + type + " on " + path, errno,
                     "use a kernel that has this file system built in");
}

void mount_all() {
  mount_at("devtmpfs", "/dev", true);
  mount_at("proc", "/proc", true);
  mount_at("sysfs", "/sys", true);
  mount_at("tmpfs", "/tmp", true);
  mount_at("debugfs", "/sys/kernel/debug", false);
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = write(fd, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return;  // nobody is left to tell
    text.remove_prefix(static_cast<std::size_t>(done));
  }
}

// "" when loaded (or there already), else what the kernel answered.
std::string load_module(const std::string& path, const std::string& params) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::strerror(errno);
  const long done = syscall(SYS_finit_module, fd, params.c_str(), 0);
  const int err = errno;
  close(fd);
  return done == 0 || err == EEXIST ? std::string() : std::strerror(err);
}

Json load_modules(const Json& spec) {
  Json outcomes = Json::array();
  for (const Json& module : spec.value("modules", Json::array())) {
    const auto path = module.at("path").get<std::string>();
    const std::string error = load_module(path, module.value("params", ""));
    outcomes.push_back({{"path", path}, {"ok", error.empty()}, {"error", error}});
  }
  return outcomes;
}

Json wait_quiet(const Json& spec) {
  const Json wanted = spec.value("quiet", Json::object());
  QuietOptions options;
  options.window = std::chrono::milliseconds(wanted.value("window_ms", options.window.count()));
  options.limit = std::chrono::milliseconds(wanted.value("limit_ms", options.limit.count()));
  options.idle_share = wanted.value("idle_share", options.idle_share);
  options.windows = wanted.value("windows", options.windows);
  const QuietOutcome outcome = wait_until_quiet(options, this_machine());
  return {{"quiet", outcome.quiet}, {"waited_ns", outcome.waited.count()}, {"idle_share", outcome.idle_share}};
}

std::string kernel_log() {
  const int size = klogctl(kSyslogSizeBuffer, nullptr, 0);
  if (size <= 0) return {};
  std::string log(static_cast<std::size_t>(size), '\0');
  const int read = klogctl(kSyslogReadAll, log.data(), size);
  log.resize(read > 0 ? static_cast<std::size_t>(read) : 0);
  return log;
}

void send_end(FrameWriter& frames, const Json& result) {
  klogctl(kSyslogConsoleOff, nullptr, 0);
  frames.send("result", to_text(result), kCopies);
  frames.send("dmesg", to_text({{"text", kernel_log()}}));
  frames.send("stage", to_text({{"stage", "done"}}), kCopies);
}

[[noreturn]] void power_off() {
  sync();
  reboot(RB_POWER_OFF);
  reboot(RB_AUTOBOOT);  // without ACPI: the emulator is told to end at a reset
  for (;;) pause();
}

Json error_result(const std::exception& error) { return {{"format", kFormat}, {"error", describe_exception(error)}}; }

// The jobs hang, and the thread that runs them with them: this one reports in its place.
[[noreturn]] void give_up(int line, std::chrono::milliseconds limit) {
  const std::string tasks = blocked_tasks();
  const Error error(ErrorKind::kTimeout,
                    "the jobs did not end within " + std::to_string(limit.count() / 1000) + " s of the guest's time" +
                        (tasks.empty() ? "" : "; asleep in the kernel:\n" + tasks),
                    "see what they wait for, or give them more time");
  FrameWriter frames([line](std::string_view text) { write_all(line, text); }, kWatchdogMessages);
  send_end(frames, error_result(error));
  tcdrain(line);
  reboot(RB_POWER_OFF);  // no sync(): what hangs may be a file system
  power_off();
}

// A prompt for whoever sits at the serial line, in a session of its own with the line as its terminal.
void run_shell(const Json& shell) {
  const auto program = shell.at("program").get<std::string>();
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    const int line = open(kLinePath, O_RDWR | O_CLOEXEC);
    ioctl(line, TIOCSCTTY, 0);
    const winsize size{shell.value("rows", std::uint16_t{24}), shell.value("columns", std::uint16_t{80}), 0, 0};
    ioctl(line, TIOCSWINSZ, &size);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(line, fd);
    const std::string terminal = "TERM=" + shell.value("term", "linux");
    const std::string command = shell.value("command", "");
    std::array<char*, 6> environment{const_cast<char*>("PATH=/bin:/sbin"), const_cast<char*>("HOME=/"),
                                     const_cast<char*>("PS1=mqlab# "), const_cast<char*>(terminal.c_str()), nullptr};
    std::array<char*, 4> words{const_cast<char*>("sh"), nullptr};
    if (!command.empty())
      words = {const_cast<char*>("sh"), const_cast<char*>("-c"), const_cast<char*>(command.c_str()), nullptr};
    execve(program.c_str(), words.data(), environment.data());
    std::perror(("mqlab-agent: starting " + program).c_str());
    _exit(1);
  }
  // Whatever the shell leaves behind becomes a child of process 1; it ends with the guest.
  for (pid_t ended = 0; ended != child;) ended = wait(nullptr);
}

// Does the spec, telling each stage, so that the host knows where a guest that died was.
Json run_spec(FrameWriter& frames, int line) {
  const auto stage = [&frames](const char* name) { frames.send("stage", to_text({{"stage", name}})); };
  stage("init");
  const Json spec = parse_spec(text_of(kSpecPath));
  const std::chrono::milliseconds limit(spec.value("limit_ms", std::int64_t{0}));
  const Watchdog watchdog(limit, [line, limit] { give_up(line, limit); });
  stage("modules");
  const Json modules = load_modules(spec);
  mount_at("configfs", "/sys/kernel/config", false);  // may be a module itself
  stage("quiet");
  const Json quiet = wait_quiet(spec);
  stage("run");
  Json result = run_jobs(spec);
  result["modules"] = modules;
  if (spec.value("symbols", false)) {
    stage("symbols");
    frames.send("symbols", to_text({{"text", kernel_functions()}}));
  }
  result["quiet"] = quiet;
  return result;
}

}  // namespace

bool is_guest_init() { return getpid() == 1 && is_memory_root() && has_word(kernel_command_line(), "mqlab.init=1"); }

void run_as_guest_init() {
  try {
    mount_all();
    if (const Json spec = parse_spec(text_of(kSpecPath)); spec.contains("shell")) {
      load_modules(spec);
      run_shell(spec.at("shell"));
      power_off();
    }
    const int line = open(kLinePath, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    FrameWriter frames([line](std::string_view text) { write_all(line, text); });
    Json result;
    try {
      result = run_spec(frames, line);
    } catch (const std::exception& error) {
      result = error_result(error);
    }
    send_end(frames, result);
    tcdrain(line);
    mqlab_all_done();
  } catch (const std::exception& error) {
    // No line to report on: the console is all there is.
    write_all(STDERR_FILENO, std::string("mqlab-agent: ") + error.what() + '\n');
  }
  power_off();
}

}  // namespace mqlab::agent
