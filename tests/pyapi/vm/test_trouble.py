"""Reports of a broken kernel, each kind as a kernel words it, and what only looks like one."""

from __future__ import annotations

import pytest

from mqlab.vm.trouble import find_troubles

REPORTS = [
    ("panic", "Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b"),
    ("oops", "Oops: 0002 [#1] SMP PTI"),
    ("oops", "Oops: general protection fault, probably for non-canonical address 0xdead: 0000 [#1]"),
    ("oops", "kernel BUG at block/blk-mq.c:3456!"),
    ("oops", "BUG: kernel NULL pointer dereference, address: 0000000000000008"),
    ("oops", "BUG: unable to handle page fault for address: ffffc90000000000"),
    ("oops", "BUG: sleeping function called from invalid context at kernel/locking/mutex.c:283"),
    ("oops", "BUG: scheduling while atomic: kworker/0:1/9/0x00000002"),
    ("oops", "refcount_t: underflow; use-after-free."),
    ("oops", "list_del corruption. next->prev should be ffff, but was 0000"),
    ("oops", "UBSAN: array-index-out-of-bounds in lib/sbitmap.c:12:3"),
    ("KASAN", "BUG: KASAN: slab-use-after-free in blk_mq_free_tags+0x10/0x20"),
    ("KASAN", "BUG: KCSAN: data-race in sbitmap_get / sbitmap_put"),
    ("KASAN", "BUG: KFENCE: use-after-free read in func+0x1/0x2"),
    ("hung task", "INFO: task kworker/0:1:9 blocked for more than 120 seconds."),
    ("hung task", "INFO: task mqlab-agent:77 blocked in I/O wait for more than 241 seconds."),
    ("lockdep", "WARNING: possible circular locking dependency detected"),
    ("lockdep", "WARNING: possible recursive locking detected"),
    ("lockdep", "WARNING: possible irq lock inversion dependency detected"),
    ("lockdep", "WARNING: inconsistent lock state"),
    ("lockdep", "WARNING: bad unlock balance detected!"),
    ("lockdep", "WARNING: HARDIRQ-safe -> HARDIRQ-unsafe lock order detected"),
    ("lockdep", "WARNING: held lock freed!"),
    ("lockdep", "WARNING: lock held when returning to user space!"),
    ("lockdep", "WARNING: kworker/0:1/9 still has locks held!"),
    ("lockdep", "WARNING: suspicious RCU usage"),
    ("lockdep", "[ BUG: Invalid wait context ]"),
    ("lockdep", "BUG: MAX_LOCKDEP_ENTRIES too low!"),
    (
        "debug objects",
        "ODEBUG: activate active (active state 1) object: 0000 object type: rcu_head hint: 0x0",
    ),
    (
        "debug objects",
        "ODEBUG: free active (active state 0) object: 0000 object type: timer_list hint: f+0x0",
    ),
    ("stall", "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:"),
    ("stall", "rcu: INFO: rcu_sched self-detected stall on CPU"),
    ("stall", "rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 3-... } 21 jiffies s: 9"),
    ("stall", "watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [swapper/1:0]"),
    ("stall", "BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck for 31s!"),
    ("warning", "WARNING: CPU: 1 PID: 77 at block/blk-mq.c:12 blk_mq_free_tags+0x1/0x2"),
    ("warning", "WARNING: block/blk-mq.c:12 at blk_mq_free_tags+0x1/0x2, CPU#1: agent/77"),
]


@pytest.mark.parametrize(("kind", "line"), REPORTS)
def test_a_report_is_found_with_its_kind_and_what_follows(kind: str, line: str) -> None:
    log = f"[    0.1] fine\n[    1.0] {line}\n[    1.0] Call Trace:\n[    1.0]  func+0x1/0x2"
    [found] = find_troubles(log)
    assert found.kind == kind
    assert found.text.splitlines()[0].endswith(line)
    assert "Call Trace" in found.text


@pytest.mark.parametrize(
    "line",
    [
        "Spectre V2 : Mitigation: Retpolines",
        "debug: BUGS=0",
        "kasan: KernelAddressSanitizer initialized",
        "ODEBUG: selftest passed",
        "rcu: RCU event tracing is enabled.",
        "clocksource: Marking clocksource 'tsc' as unstable because the skew is too large",
        "spectre: WARNING: see the manual",
        "rcu: INFO: Stall ended before state dump start",
    ],
)
def test_what_a_healthy_kernel_says_is_no_trouble(line: str) -> None:
    assert find_troubles(f"[    0.5] {line}") == []


def test_a_plain_warning_before_init_is_not_the_workloads() -> None:
    warning = "[ 0.5] WARNING: CPU: 0 PID: 1 at arch/x86/x.c:1 f+0x1/0x2"
    init = "[ 2.0] Run /init as init process"
    assert find_troubles(f"{warning}\n{init}") == []
    assert [t.kind for t in find_troubles(f"{init}\n{warning}")] == ["warning"]
    assert find_troubles(f"[ 0.5] BUG: KASAN: x in y\n{init}") != []
