"""quiesce-rt: which lock guards the quiesce state, and what that does to irq threads on PREEMPT_RT."""

from __future__ import annotations

from mqlab.experiments._common import CPUS, HZ
from mqlab.model import Case, Experiment, Metric, RowMap, Variant, experiment
from mqlab.parameters import Parameter, Scalar

MACHINE: dict[str, Scalar] = {"hz": 1000, "cpus": 16}


def _policies(kernel: str, guard: str, freeze: str = "sync") -> dict[str, Scalar]:
    return {"kernel": kernel, "quiesce_guard": guard, "freeze_run": freeze}


@experiment
def quiesce_rt() -> Experiment:
    """On PREEMPT_RT the queue lock sleeps, and every irq thread that runs a hardware queue takes it. What
    do the patch and the alternatives named in review bring: a raw spinlock, an atomic depth, barriers, an
    asynchronous run?
    """
    return Experiment(
        id="quiesce-rt",
        title="the lock of the quiesce state on PREEMPT_RT",
        thread="quiesce-rt",
        variants=(
            Variant("before", "queue_lock, sleeping on PREEMPT_RT", _policies("rt", "spinlock")),
            Variant("patch", "raw spinlock, asynchronous freeze", _policies("rt", "raw_spinlock", "async")),
            Variant("raw-spinlock", "raw spinlock alone", _policies("rt", "raw_spinlock")),
            Variant("atomic-depth", "atomic quiesce depth", _policies("rt", "atomic_depth")),
            Variant("barriers", "paired barriers", _policies("rt", "barriers")),
            Variant("no-guard", "nothing (queue runs can get lost)", _policies("rt", "none")),
            Variant(
                "before-async-freeze", "queue_lock, asynchronous freeze", _policies("rt", "spinlock", "async")
            ),
            Variant("normal", "queue_lock on a normal kernel", _policies("normal", "spinlock")),
            Variant("normal-no-guard", "nothing, on a normal kernel", _policies("normal", "none")),
        ),
        cases=(
            Case(
                "8-vectors",
                "quiesce_rt",
                {**MACHINE, "irq_threads": 8, "hw_queues": 8, "queue_depth": 128},
                "8 MSI-X vectors whose irq threads run the queues of one device",
            ),
            Case(
                "queue-per-interrupt",
                "quiesce_rt",
                {**MACHINE, "irq_threads": 8, "hw_queues": 1, "queue_depth": 128},
                "each interrupt runs a queue of its own",
                ("before", "patch"),
            ),
        ),
        metrics=(
            Metric("throughput_mb_s", "MB/s", "higher"),
            Metric("irq_threads_in_d", "threads", "lower"),
            Metric("top_waiter_spins", "waits", "lower"),
            Metric("barrier_call_sites", "call sites", "lower"),
            Metric("freeze_start_ms", "ms", "lower"),
        ),
        parameters=(
            HZ,
            CPUS,
            Parameter("irq_threads", "irq threads, one a vector", "", 1, 256),
            Parameter("hw_queues", "hardware queues of the device", "", 1, 256),
            Parameter("queue_depth", "commands that the device takes at once", "", 1, 10_240),
        ),
        rows=(
            RowMap("throughput", "8-vectors", "throughput_mb_s", "before", "patch"),
            RowMap("irq-threads-in-d", "8-vectors", "irq_threads_in_d", "before", "patch"),
            RowMap("normal-kernel-hurts-less", "8-vectors", "throughput_mb_s", "before", "normal"),
            RowMap("normal-kernel-spins", "8-vectors", "irq_threads_in_d", "before", "normal"),
            RowMap(
                "queue-per-interrupt",
                "8-vectors",
                "throughput_mb_s",
                "before",
                "before",
                after_case="queue-per-interrupt",
            ),
            RowMap("atomic-depth", "8-vectors", "throughput_mb_s", "before", "atomic-depth"),
            RowMap("barriers-throughput", "8-vectors", "throughput_mb_s", "before", "barriers"),
            RowMap("barriers-call-sites", "8-vectors", "barrier_call_sites", "", "barriers"),
            RowMap("top-waiter-spins", "8-vectors", "top_waiter_spins", "before", ""),
            RowMap("async-freeze-throughput", "8-vectors", "throughput_mb_s", "raw-spinlock", "patch"),
            RowMap("async-freeze-start", "8-vectors", "freeze_start_ms", "raw-spinlock", "patch"),
        ),
    )
