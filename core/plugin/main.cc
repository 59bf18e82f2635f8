// A plugin for QEMU: counts what a guest executes, exactly and at no cost inside of the guest.
//
//   -plugin mqlab-count.so,out=FILE,job=ADDRESS,begin=ADDRESS,end=ADDRESS,done=ADDRESS
//
// FILE gets the counts when QEMU ends. The addresses are those of the agent's functions that mark the begin of a
// job, begin and end of a measured window, and the end of all (`mqlab-agent marks` tells them).
//
// Thread safety: QEMU calls from the one thread that executes all CPUs of the guest (-icount makes it so).
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "plugin/block_table.h"
#include "plugin/qemu_api.h"

#define MQLAB_EXPORT extern "C" [[gnu::visibility("default")]]

namespace {

using mqlab::plugin::BlockTable;

constexpr std::uint64_t kKernelHalf = 1ULL << 63U;

struct State {
  BlockTable table;
  std::string out_path;
  std::uint64_t job = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t done = 0;
};

// Never destroyed: QEMU asks for the counts at its exit, when the destructors of static objects have run.
State& state() {
  static State& only = *new State;
  return only;
}

void on_run(unsigned, void* counter) { ++*static_cast<std::uint64_t*>(counter); }
void on_job(unsigned, void*) { state().table.begin_job(); }
void on_begin(unsigned, void*) { state().table.begin_window(); }
void on_end(unsigned, void*) { state().table.end_window(); }
void on_done(unsigned, void*) { state().table.end_boot(); }

// User code without an inline counter: the block's length comes with the call.
void on_user_run(unsigned, void* instructions) {
  state().table.user_instructions() += std::bit_cast<std::uintptr_t>(instructions);
}

void count(qemu_plugin_tb* block, std::uint64_t address, std::uint64_t instructions) {
  BlockTable& table = state().table;
  const bool is_kernel = address >= kKernelHalf;
  std::uint64_t* const counter = is_kernel ? &table.block(address, instructions).runs : &table.user_instructions();
  if (qemu_plugin_register_vcpu_tb_exec_inline != nullptr) {
    qemu_plugin_register_vcpu_tb_exec_inline(block, kQemuPluginAdd64, counter, is_kernel ? 1 : instructions);
  } else if (is_kernel) {
    qemu_plugin_register_vcpu_tb_exec_cb(block, on_run, kQemuPluginNoRegisters, counter);
  } else {
    // A number travels as the pointer that QEMU hands back.
    qemu_plugin_register_vcpu_tb_exec_cb(block, on_user_run, kQemuPluginNoRegisters,
                                         std::bit_cast<void*>(instructions));
  }
}

void watch_mark(qemu_plugin_tb* block, std::uint64_t address) {
  const auto call = [block](qemu_plugin_vcpu_exec function) {
    qemu_plugin_register_vcpu_tb_exec_cb(block, function, kQemuPluginNoRegisters, nullptr);
  };
  if (address == state().job) call(on_job);
  if (address == state().begin) call(on_begin);
  if (address == state().end) call(on_end);
  if (address == state().done) call(on_done);
}

void on_translated(qemu_plugin_id_t, qemu_plugin_tb* block) {
  const std::uint64_t address = qemu_plugin_tb_vaddr(block);
  count(block, address, qemu_plugin_tb_n_insns(block));
  watch_mark(block, address);
}

void on_exit(qemu_plugin_id_t, void*) {
  std::FILE* const out = std::fopen(state().out_path.c_str(), "w");
  if (out == nullptr) {
    std::perror(("mqlab-count: writing " + state().out_path).c_str());
    return;
  }
  state().table.write(out);
  std::fclose(out);
}

bool take_argument(std::string_view argument) {
  const std::size_t equals = argument.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string name(argument.substr(0, equals));
  const std::string value(argument.substr(equals + 1));
  if (name == "out") {
    state().out_path = value;
    return true;
  }
  const std::map<std::string, std::uint64_t*> addresses{
      {"job", &state().job}, {"begin", &state().begin}, {"end", &state().end}, {"done", &state().done}};
  const auto found = addresses.find(name);
  if (found == addresses.end()) return false;
  *found->second = std::strtoull(value.c_str(), nullptr, 0);
  return true;
}

}  // namespace

MQLAB_EXPORT int qemu_plugin_version;
int qemu_plugin_version = 1;

// Before QEMU reads the version: the oldest that has what is used, since later ones refuse 1.
[[gnu::constructor]] static void choose_version() {
  if (qemu_plugin_register_vcpu_tb_exec_inline == nullptr) qemu_plugin_version = 2;
}

MQLAB_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info, int argc, char** argv) {
  if (!info->system_emulation) {
    std::fprintf(stderr, "mqlab-count: counts whole machines, not programs\n");
    return -1;
  }
  for (int i = 0; i < argc; ++i) {
    if (!take_argument(argv[i])) {
      std::fprintf(stderr, "mqlab-count: cannot read the argument %s\n", argv[i]);
      return -1;
    }
  }
  if (state().out_path.empty()) {
    std::fprintf(stderr, "mqlab-count: needs out=FILE\n");
    return -1;
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_translated);
  qemu_plugin_register_atexit_cb(id, on_exit, nullptr);
  return 0;
}
