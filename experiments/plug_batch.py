"""plug-batch: a batch of tags that came back partial, tried again inside the plug."""

from __future__ import annotations

from mqlab.experiments._common import CPUS, HZ, THREADS
from mqlab.guest import CallRatio
from mqlab.model import Case, Curve, Experiment, Guest, GuestRow, Metric, RowMap, Variant, experiment
from mqlab.parameters import Parameter, Scalar

MACHINE: dict[str, Scalar] = {"hz": 1000, "cpus": 16, "queues": 16, "depth": 128, "batch": 32, "reap": 32}

# The thread does not say how the flash SSDs were read. A later version of the patch (v7, 18 November 2025)
# does, for the Gen4 SSD and the CPU share: this is that job.
SSD: dict[str, Scalar] = {
    **MACHINE, "reader": "fio", "refill_at": 32, "tags": 1023, "devices": 1, "threads": 1,
    "cpus_allowed": 16, "ios": 400_000,
}  # fmt: skip
# The command of the thread; both rows print the one with `taskset -c 0`, so both are bound to one CPU.
OPTANE: dict[str, Scalar] = {
    **MACHINE, "device": "optane", "reader": "t_io_uring", "tags": 1023, "devices": 2,
    "cpus_allowed": 1, "ios": 400_000,
}  # fmt: skip
# What was counted on real kernels: one CPU, a ublk server that holds requests back.
UBLK: dict[str, Scalar] = {
    **MACHINE, "cpus": 1, "device": "ublk", "reader": "t_io_uring", "tags": 128, "threads": 1, "ios": 20_000,
}  # fmt: skip

HELD_BACK = (0, 6, 12, 24, 36, 48, 60, 72, 84, 90, 96)
CURVE_CASES = tuple(f"held-back-{h}" for h in HELD_BACK)
# Means over six orders of completion; their standard deviation is 0.01 allocations and 6 instructions.
REAL = "Linux 7.3.4 without and with the thread's patch, means of 6 orders, in a deterministic guest"

OF_THREAD = ("before", "patch", "merged")
GEN5_MISS = (
    "the model lets the SSD be waited for during half of a refill, where saved CPU time gains nothing; "
    "how the Gen5 SSD was read is not known"
)
NO_SSD = "it needs the SSD itself; a guest's disk would show the emulator's speed"
OLD_BASE = "since 6.19 the allocation itself asks again for the rest of a batch: no kernel of 7.3 is without"
ON_UBLK = (
    "on a real kernel: a ublk device that completes in random order; both sides ask again inside of the "
    "allocation, as every kernel since 6.19 does"
)
# One CPU and no emulated device: exact. The function that is counted is the thread's.
GUEST = Guest(
    "ublk_random_reads",
    {
        "iops": "reads_per_s",
        "allocations_per_io": "calls_per_op:__blk_mq_alloc_requests",
        "instructions_per_io": "instructions_per_op",
        "cpu_share_alloc_percent": "percent:__blk_mq_alloc_requests",
    },
    ratios={
        # A batch asks until it has all: what is over one call for each that got any came back short.
        "partial_share": CallRatio(
            {"blk_mq_get_tags": 1, "__blk_mq_alloc_requests": -1, "blk_mq_get_tag": 1}, {"blk_mq_get_tags": 1}
        ),
    },
    params={"queues": 1, "block_bytes": 512, "order_seed": 1},
    takes=("held_back", "depth", "batch", "ios"),
    cpus=1,
    runs=4,
    modules=("ublk_drv",),
)
SHARE_MISS = (
    "the counted instructions of the path, all at one speed; the published shares fit about twice the time "
    "an instruction in single allocations, which the Optane rows contradict"
)


BADLY_FRAGMENTED = GuestRow(case="held-back-90", before="merged", after="merged-patch", note=ON_UBLK)


def _ssd(generation: int) -> Case:
    device = f"gen{generation}_ssd"
    title = f"PCIe Gen{generation} SSD, 4 KiB, 1 thread"
    params = {**SSD, "device": device}
    return Case(f"gen{generation}-ssd", "plug_batch", params, title, OF_THREAD, guest_reason=NO_SSD)


def _optane(threads: int) -> Case:
    name = "1-thread" if threads == 1 else f"{threads}-threads"
    title = f"two Optane SSDs, {threads} thread{'s' if threads > 1 else ''} on one CPU, polled"
    params = {**OPTANE, "threads": threads}
    return Case(f"optane-{name}", "plug_batch", params, title, OF_THREAD, guest_reason=NO_SSD)


def _held_back(count: int) -> Case:
    title = f"ublk, completed in random order, {count} of 128 held back"
    return Case(f"held-back-{count}", "plug_batch", {**UBLK, "held_back": count}, title, guest=GUEST)


@experiment
def plug_batch() -> Experiment:
    """A plug asks for a batch of tags once; where the bitmap is fragmented it gets fewer, and every further
    request allocates its tag alone. What does asking for a batch again bring, and when?
    """
    return Experiment(
        id="plug-batch",
        title="batch tag allocation tried again inside a plug",
        thread="plug-batch",
        code=(
            "block/blk-mq.c:*_alloc_requests*,*rq_cache*,*cached*,blk_mq_get_new_requests,blk_mq_submit_bio,*plug*",
            "block/blk-mq-tag.c:blk_mq_get_tag*,__blk_mq_get_tag,blk_mq_put_tag*",
            "block/blk-core.c:*plug*,submit_bio*",
            "lib/sbitmap.c",
            "include/linux/sbitmap.h",
            "io_uring/rw.c",
        ),
        variants=(
            Variant(
                "before",
                "one batch a plug (Linux up to 6.18)",
                {"batch_retry": "off", "batch_loop": "off"},
                kernel_reason=OLD_BASE,
            ),
            Variant(
                "patch",
                "the plug asks again for what is left",
                {"batch_retry": "on", "batch_loop": "off"},
                kernel_reason=OLD_BASE,
            ),
            Variant(
                "merged",
                "what was merged in its place: the allocation asks until it gets none (Linux 6.19 and later)",
                {"batch_retry": "off", "batch_loop": "on"},
                (),
            ),
            Variant("merged-patch", "both at once", {"batch_retry": "on", "batch_loop": "on"}, (1,)),
        ),
        cases=(
            *(_ssd(generation) for generation in (3, 4, 5)),
            *(_optane(threads) for threads in (1, 2)),
            *(_held_back(count) for count in HELD_BACK),
        ),
        metrics=(
            Metric("iops", "IOPS", "higher"),
            Metric("cpu_share_alloc_percent", "%", "lower"),
            Metric("alloc_ns_per_io", "ns", "lower"),
            Metric("allocations_per_io", "allocations", "lower"),
            Metric("partial_share", "ratio", "lower"),
            Metric("instructions_per_io", "instructions", "lower"),
        ),
        parameters=(
            HZ,
            CPUS,
            THREADS,
            Parameter(
                "device", "class of device", choices=("gen3_ssd", "gen4_ssd", "gen5_ssd", "optane", "ublk")
            ),
            Parameter("devices", "devices that are read from", "", 1, 64),
            Parameter("queues", "hardware queues a device", "", 1, 256),
            Parameter("tags", "tags a hardware queue", "", 1, 10_240),
            Parameter("reader", "the program that reads", choices=("t_io_uring", "fio")),
            Parameter("cpus_allowed", "CPUs that the readers may use", "", 1, 256),
            Parameter("depth", "reads that a thread keeps in flight", "", 1, 10_240),
            Parameter("batch", "reads submitted under one plug", "", 1, 10_240),
            Parameter("reap", "completions that a thread waits for", "", 1, 10_240),
            Parameter("refill_at", "fio: reads in flight at which it submits again", "", 0, 10_240),
            Parameter("held_back", "requests that the server holds back", "", 0, 10_240),
            Parameter("ios", "reads that are measured", "", 1000, 1_000_000_000),
        ),
        rows=(
            RowMap("gen3-iops", "gen3-ssd", "iops", "before", "patch"),
            RowMap("gen4-iops", "gen4-ssd", "iops", "before", "patch"),
            RowMap("gen5-iops", "gen5-ssd", "iops", "before", "patch", finding=GEN5_MISS),
            RowMap("optane-1-thread-iops", "optane-1-thread", "iops", "before", "patch"),
            RowMap("optane-2-threads-iops", "optane-2-threads", "iops", "before", "patch"),
            RowMap(
                "alloc-cpu-share",
                "gen4-ssd",
                "cpu_share_alloc_percent",
                "before",
                "patch",
                finding=SHARE_MISS,
                guest=BADLY_FRAGMENTED,
            ),
            RowMap(
                "partial-batches",
                "gen4-ssd",
                "partial_share",
                "before",
                "",
                guest=GuestRow(case="held-back-90", before="merged", note=ON_UBLK),
            ),
            RowMap(
                "fewer-single-allocations",
                "held-back-90",
                "allocations_per_io",
                "before",
                "patch",
                guest=BADLY_FRAGMENTED,
                counts=("instructions_per_io",),
            ),
        ),
        curves=(
            Curve(
                "allocations an I/O over how fragmented the bitmap is: the thread's kernels",
                "held_back",
                "allocations_per_io",
                CURVE_CASES,
                "before",
                "patch",
            ),
            Curve(
                "allocations an I/O, where the allocation itself asks again (Linux 6.19 and later)",
                "held_back",
                "allocations_per_io",
                CURVE_CASES,
                "merged",
                "merged-patch",
                (
                    (0, 0.0312, 0.0315),
                    (24, 0.1715, 0.1703),
                    (48, 0.1754, 0.1751),
                    (72, 0.1958, 0.1855),
                    (90, 0.3123, 0.3229),
                    (96, 0.3571, 0.3585),
                ),
                REAL,
            ),
            Curve(
                "instructions an I/O (profile guest)",
                "held_back",
                "instructions_per_io",
                CURVE_CASES,
                "merged",
                "merged-patch",
                (
                    (0, 4641, 4644),
                    (24, 4795, 4803),
                    (48, 4843, 4843),
                    (72, 5023, 5020),
                    (90, 5100, 5104),
                    (96, 5136, 5138),
                ),
                REAL,
            ),
        ),
    )
