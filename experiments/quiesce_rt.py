"""quiesce-rt: which lock guards the quiesce state, and what that does to irq threads on PREEMPT_RT.

The thread gives neither CPUs nor disks, block size, depth or jobs. What is assumed here, and why:
- 8 vectors complete commands of all hardware queues, 16 commands to each in turn. So does megaraid_sas with
  the 8 vectors that it keeps for busy devices on controllers with interrupt coalescing (its balanced mode).
- The host then has a hardware queue for each CPU; 16 CPUs, and 8 jobs on those that the irq threads leave
  alone. The 8 queues without a job have nothing to do when they are run, and each such run takes the lock.
- Queue depth 256, the driver's own for a SAS disk and for a logical one; 8 x 64 reads in flight, twice as
  many, so that budgets are refused and completions run all queues. No I/O scheduler.
- Reads of 4 KiB. With large blocks, 153 MB/s would be so few commands that no lock could be their limit.
Of these the number of hardware queues without work moves the result most: it is drawn as a curve.
"""

from __future__ import annotations

from mqlab.experiments._common import CPUS, HZ
from mqlab.model import Case, Curve, Experiment, Guest, GuestRow, Metric, RowMap, Variant, experiment
from mqlab.parameters import Parameter, Scalar

LOAD: dict[str, Scalar] = {
    "hz": 1000,
    "cpus": 16,
    "irq_threads": 8,
    "hw_queues": 16,
    "jobs": 8,
    "in_flight": 64,
    "queue_depth": 256,
    "block_size_bytes": 4096,
    "ios": 4000,
    "burst_ms": 5,
}
HW_QUEUES = (8, 12, 16, 24, 32)
CURVE_CASES = tuple("8-vectors" if n == LOAD["hw_queues"] else f"hw-queues-{n}" for n in HW_QUEUES)

RACERS = ("before", "patch", "atomic-depth", "barriers", "no-guard", "atomic-depth-alone")

# Hardware queues are all run at a completion only when more is in flight than the device takes at once
# (8 x 32 against 64). The entropy pool's lock would be the bottleneck without add_random 0.
SCSI = Guest(
    "scsi_irq_load",
    {"throughput_mb_s": "mb_per_s", "irq_threads_in_d": "irq_threads_in_d"},
    params={
        "threads": 8, "depth": 32, "queue_depth": 64, "block_bytes": 4096,
        "duration_ms": 3000, "sample_every_ms": 30, "add_random": False,
    },
    clock="real",
    why_real="an emulated disk runs in the host's time, and waits for a lock need CPUs that work at once",
    devices=("virtio-scsi:queues=8",),
    fragment="rt",
    cpus=8,
    modules=("virtio_scsi", "sd_mod"),
    # A normal kernel has irq threads then, as PREEMPT_RT always does; and a busy host fails no check at boot.
    kernel_args=("threadirqs", "no_timer_check"),
)  # fmt: skip
THROUGHPUT = GuestRow(host_cpus=8)
MOST_AT_A_LOOK = GuestRow(
    statistic="max",
    note="on a real kernel: virtio-scsi with 8 queues, 256 reads in flight at a queue depth of 64; the most "
    "threads in D at one look, of one every 30 ms",
    quote="irq threads waited",
)
NO_PATCH = "it was named in review and no patch was sent"
SCHEDULES = "it is about every order of steps, which schedules of the engine go through"

TOP_WAITER = (
    "in a pile-up a waiter comes to the top when the one before it takes the lock, and by then it sleeps; "
    "the threads in D sleep, and next to none of them spins"
)
ASYNC_FREEZE = (
    "a freeze looks at every hardware queue, and takes the lock where one has nothing to do, whichever way; "
    "other CPUs' queues go to kblockd anyway, and handing over its own takes the caller no less than a "
    "dispatch that is refused its budget"
)


def _policies(kernel: str, guard: str, freeze: str = "sync", **more: Scalar) -> dict[str, Scalar]:
    return {"kernel": kernel, "quiesce_guard": guard, "freeze_run": freeze, **more}


def _with_hw_queues(count: int) -> Case:
    return Case(
        f"hw-queues-{count}",
        "quiesce_rt",
        {**LOAD, "hw_queues": count, "cpus": max(16, count), "ios": 2000},
        f"{count} hardware queues, 8 of them with a job",
        ("before", "patch"),
        guest_reason="an emulated disk has no more queues than the guest has CPUs",
    )


@experiment
def quiesce_rt() -> Experiment:
    """On PREEMPT_RT the queue lock sleeps, and every irq thread that runs a hardware queue which has nothing
    to do takes it. What do the patch and the alternatives named in review bring: a raw spinlock, an atomic
    depth, barriers, a queue for each interrupt, an asynchronous run?
    """
    return Experiment(
        id="quiesce-rt",
        title="the lock of the quiesce state on PREEMPT_RT",
        thread="quiesce-rt",
        code=(
            "block/blk-mq.c:*quiesce*,blk_mq_run_hw_queue*,blk_mq_hw_queue_need_run,*run_hw_queues*",
            "drivers/scsi/scsi_lib.c:scsi_run_queue*,scsi_*queue_rq,scsi_end_request,scsi_*budget*",
            "kernel/locking/rtmutex*",
        ),
        variants=(
            Variant("before", "queue_lock, sleeping on PREEMPT_RT", _policies("rt", "spinlock"), ()),
            Variant(
                "patch", "raw spinlock, asynchronous freeze", _policies("rt", "raw_spinlock", "async"), (1,)
            ),
            Variant(
                "raw-spinlock",
                "raw spinlock alone",
                _policies("rt", "raw_spinlock"),
                kernel_reason="the thread's patch holds the lock and the asynchronous freeze in one",
            ),
            Variant(
                "atomic-depth",
                "atomic quiesce depth and a barrier",
                _policies("rt", "atomic_depth"),
                kernel_reason=NO_PATCH,
            ),
            Variant("barriers", "paired barriers", _policies("rt", "barriers"), kernel_reason=NO_PATCH),
            Variant(
                "normal",
                "queue_lock on a normal kernel",
                _policies("normal", "spinlock"),
                (),
                fragment="base",
            ),
            Variant(
                "queue-per-interrupt",
                "queue_lock; each interrupt has a hardware queue and its share of the depth",
                _policies("rt", "spinlock", queues="per_interrupt"),
                kernel_reason="an emulated controller has a hardware queue an interrupt in any case",
            ),
            Variant(
                "top-waiter-sleeps",
                "queue_lock whose first waiter sleeps at once",
                _policies("rt", "spinlock", top_waiter="sleeps"),
                kernel_reason=NO_PATCH,
            ),
            Variant(
                "before-async-freeze",
                "queue_lock, asynchronous freeze",
                _policies("rt", "spinlock", "async"),
                kernel_reason="the thread's patch holds the lock and the asynchronous freeze in one",
            ),
            Variant(
                "no-guard",
                "nothing (queue runs get lost)",
                _policies("normal", "none"),
                kernel_reason="it is a fault made on purpose",
            ),
            Variant(
                "atomic-depth-alone",
                "atomic quiesce depth without a barrier (queue runs get lost)",
                _policies("normal", "atomic_depth_alone"),
                kernel_reason="it is a fault made on purpose",
            ),
        ),
        cases=(
            Case(
                "8-vectors",
                "quiesce_rt",
                LOAD,
                "8 MSI-X vectors whose irq threads run the queues of one device",
                (
                    "before",
                    "patch",
                    "raw-spinlock",
                    "atomic-depth",
                    "barriers",
                    "normal",
                    "queue-per-interrupt",
                    "top-waiter-sleeps",
                ),
                SCSI,
            ),
            Case(
                "freeze",
                "quiesce_rt",
                {**LOAD, "freezes": 8},
                "the device is frozen again and again under load",
                ("before", "before-async-freeze", "raw-spinlock", "patch"),
                guest_reason="the start of a freeze is a time inside of the kernel: no guest measures it",
            ),
            Case(
                "unquiesce-race",
                "quiesce_race",
                {"schedules": 2000, "memory": "x86", "unpaired": "none"},
                "requests added while the queue is unquiesced, on x86 CPUs with their store buffers",
                RACERS,
                guest_reason=SCHEDULES,
            ),
            Case(
                "unquiesce-race-weak",
                "quiesce_race",
                {"schedules": 2000, "memory": "weak", "unpaired": "none"},
                "the same as far as the kernel's memory model lets loads pass stores",
                RACERS,
                guest_reason=SCHEDULES,
            ),
            Case(
                "barrier-forgotten",
                "quiesce_race",
                {"schedules": 2000, "memory": "weak", "unpaired": "dispatch_list"},
                "one of the places that add a request lacks its barrier",
                ("barriers",),
                guest_reason=SCHEDULES,
            ),
            *(_with_hw_queues(n) for n in HW_QUEUES if n != LOAD["hw_queues"]),
        ),
        metrics=(
            Metric("throughput_mb_s", "MB/s", "higher"),
            Metric("irq_threads_in_d", "threads", "lower"),
            Metric("top_waiter_spins", "waits", "lower"),
            Metric("spinning_percent", "%", "lower"),
            Metric("freeze_start_ms", "ms", "lower"),
            Metric("violations", "violations", "lower"),
            Metric("barrier_call_sites", "call sites", "lower"),
        ),
        parameters=(
            HZ,
            CPUS,
            Parameter("irq_threads", "irq threads, one a vector", "", 1, 64),
            Parameter("hw_queues", "hardware queues of the device", "", 1, 64),
            Parameter("jobs", "jobs, each on a CPU", "", 1, 256),
            Parameter("in_flight", "reads that a job keeps in flight", "", 1, 4096),
            Parameter("queue_depth", "commands that the device takes at once", "", 1, 10_240),
            Parameter("block_size_bytes", "size of a read", "bytes", 512, 1_048_576),
            Parameter("ios", "reads measured", "", 1, 100_000_000),
            Parameter("burst_ms", "burst of completions that starts a pile-up; 0: none", "ms", 0, 1000),
            Parameter("freezes", "freezes while measuring", "", 0, 1000),
            Parameter("memory", "order in which stores are seen", choices=("x86", "weak")),
            Parameter(
                "unpaired",
                "the place without a barrier, for the variant barriers",
                choices=("none", "software_queue", "dispatch_list"),
            ),
            Parameter("schedules", "schedules explored a run", "", 1, 10_000_000),
        ),
        rows=(
            RowMap("throughput", "8-vectors", "throughput_mb_s", "before", "patch", guest=THROUGHPUT),
            RowMap(
                "irq-threads-in-d", "8-vectors", "irq_threads_in_d", "before", "patch", guest=MOST_AT_A_LOOK
            ),
            RowMap(
                "normal-kernel-hurts-less",
                "8-vectors",
                "throughput_mb_s",
                "before",
                "normal",
                guest=THROUGHPUT,
            ),
            RowMap(
                "normal-kernel-spins",
                "8-vectors",
                "irq_threads_in_d",
                "before",
                "normal",
                guest=MOST_AT_A_LOOK,
            ),
            RowMap("queue-per-interrupt", "8-vectors", "throughput_mb_s", "before", "queue-per-interrupt"),
            RowMap("atomic-depth", "8-vectors", "throughput_mb_s", "before", "atomic-depth"),
            RowMap("barriers-throughput", "8-vectors", "throughput_mb_s", "before", "barriers"),
            RowMap("barriers-call-sites", "unquiesce-race", "barrier_call_sites", "", "barriers"),
            RowMap("top-waiter-spins", "8-vectors", "top_waiter_spins", "before", "", finding=TOP_WAITER),
            RowMap("async-freeze-throughput", "8-vectors", "throughput_mb_s", "raw-spinlock", "patch"),
            RowMap(
                "async-freeze-start",
                "freeze",
                "freeze_start_ms",
                "raw-spinlock",
                "patch",
                finding=ASYNC_FREEZE,
            ),
            RowMap("no-queue-run-lost", "unquiesce-race", "violations", "no-guard", "patch"),
        ),
        curves=(
            Curve(
                "throughput over the number of hardware queues, 8 of them with a job",
                "hw_queues",
                "throughput_mb_s",
                CURVE_CASES,
                "before",
                "patch",
            ),
        ),
    )
