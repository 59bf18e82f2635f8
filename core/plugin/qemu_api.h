// The part of QEMU's plugin interface that is used here, declared by hand: distributions do not package its header.
//
// A plugin says which version of the interface it was made for, in `qemu_plugin_version`, and exports
// `qemu_plugin_install`. Version 1 (QEMU up to 8.2) adds to a counter without a call by
// qemu_plugin_register_vcpu_tb_exec_inline; version 2 (QEMU 9.0 on) removed it, and there every block makes a call.
// All of QEMU's functions are weak, so that the plugin loads where one is missing.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct qemu_plugin_tb;

struct qemu_info_t {
  const char* target_name;
  struct {
    int min;
    int cur;
  } version;
  bool system_emulation;
  struct {
    int smp_vcpus;
    int max_vcpus;
  } system;
};

using qemu_plugin_id_t = std::uint64_t;
using qemu_plugin_tb_trans = void (*)(qemu_plugin_id_t id, qemu_plugin_tb* block);
using qemu_plugin_vcpu_exec = void (*)(unsigned cpu, void* data);
using qemu_plugin_at_exit = void (*)(qemu_plugin_id_t id, void* data);

inline constexpr int kQemuPluginNoRegisters = 0;
inline constexpr int kQemuPluginAdd64 = 0;

[[gnu::weak]] void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_plugin_tb_trans call);
[[gnu::weak]] void qemu_plugin_register_vcpu_tb_exec_cb(qemu_plugin_tb* block, qemu_plugin_vcpu_exec call, int flags,
                                                        void* data);
[[gnu::weak]] void qemu_plugin_register_vcpu_tb_exec_inline(qemu_plugin_tb* block, int operation, void* counter,
                                                            std::uint64_t addend);
[[gnu::weak]] void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, qemu_plugin_at_exit call, void* data);
[[gnu::weak]] std::size_t qemu_plugin_tb_n_insns(const qemu_plugin_tb* block);
[[gnu::weak]] std::uint64_t qemu_plugin_tb_vaddr(const qemu_plugin_tb* block);

}  // extern "C"
