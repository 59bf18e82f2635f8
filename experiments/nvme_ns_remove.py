"""nvme-ns-remove: a controller's namespaces removed one after another, or all at once."""

from __future__ import annotations

from mqlab.experiments._common import CPUS, HZ, QUEUES
from mqlab.model import Case, Experiment, Guest, GuestRow, Metric, RowMap, Variant, experiment
from mqlab.parameters import Parameter, Scalar

MACHINE: dict[str, Scalar] = {"hz": 1000, "cpus": 4, "queues": 4}
POINTS = ((8, "tcp"), (32, "tcp"), (64, "tcp"), (64, "loop"))


QUEUES_FOR_SYSFS = (
    "the grace periods of a removal are the same; in the model it also queues for the others at the lock of "
    "sysfs removals, which is what makes 64 of them take over 100 ms"
)
SHORT_BASE = (
    "8 parallel removals are little more than the fixed part of a controller's deletion, which is some "
    "10 ms shorter in the model than the rows of the thread leave for it"
)


DISCONNECT = Guest(
    "nvmet_disconnect",
    {"disconnect_ms": "disconnect_ns", "connect_ready_ms": "connect_ready_ns"},
    params={"backing": "null_blk"},
    takes=("namespaces", "transport", "queues"),
    counts=("synchronize_srcu", "synchronize_rcu"),
    modules=("null_blk", "nvme_tcp", "nvme_loop", "nvmet", "nvmet_tcp"),
)
# Each namespace waits for as many grace periods as before; the waits pass at once.
COUNTS = ("calls_per_op:synchronize_srcu", "calls_per_op:synchronize_rcu", "instructions_per_op")
FROM_INSIDE = GuestRow(reason="it is a time inside of the kernel, which a guest does not measure")


def _rows() -> tuple[RowMap, ...]:
    """Two boots of a cell are two rows, and one measurement answers both."""
    tables = ((1, "before", "patch-1"), (2, "patch-1", "series"))
    return tuple(
        RowMap(
            f"patch-{patch}-{n}-{transport}-boot-{boot}",
            f"{transport}-{n}",
            "disconnect_ms",
            before,
            after,
            finding=SHORT_BASE if n == 8 else "",
        )
        for patch, before, after in tables
        for n, transport in POINTS
        for boot in (1, 2)
    )


@experiment
def nvme_ns_remove() -> Experiment:
    """Deleting an nvme controller waited for several grace periods a namespace, one namespace after
    another. What do parallel removals bring, and what does the write lock on the tag set take back?
    """
    return Experiment(
        id="nvme-ns-remove",
        title="namespaces of an nvme controller removed in parallel",
        thread="nvme-ns-remove",
        code=(
            "drivers/nvme/host/*:*remove*,*delete*,*scan*,*uninit*,*stop*,*teardown*",
            "drivers/nvme/target/*",
            "block/genhd.c:*del_gendisk*,disk_release",
            "block/blk-mq.c:*freeze*,blk_mq_destroy_queue,blk_mq_wait_quiesce_done",
            "block/elevator.c",
            "block/blk-sysfs.c:blk_unregister_queue",
            "kernel/async.c",
        ),
        variants=(
            Variant("before", "one after another", {"ns_removal": "serial", "elv_flag_lock": "write"}, ()),
            Variant("patch-1", "in parallel", {"ns_removal": "parallel", "elv_flag_lock": "write"}, (1,)),
            Variant(
                "series",
                "in parallel, the flag set under the read lock",
                {"ns_removal": "parallel", "elv_flag_lock": "read"},
                (1, 2),
            ),
        ),
        cases=(
            *(
                Case(
                    f"{transport}-{n}",
                    "nvme_disconnect",
                    {**MACHINE, "namespaces": n, "transport": transport},
                    f"disconnect from a target with {n} namespaces over {transport}",
                    guest=DISCONNECT,
                )
                for n, transport in POINTS
            ),
            Case(
                "elevator-stress",
                "life_stress",
                {"hz": 1000, "cpus": 8, "threads": 8, "steps": 300},
                "disks are deleted while sysfs switches their elevators",
                ("before", "series"),
                guest_reason="it is about every order of steps, which schedules of the engine go through",
            ),
        ),
        metrics=(
            Metric("disconnect_ms", "ms", "lower"),
            Metric("ns_remove_ms", "ms", "lower"),
            Metric("overlap_ratio", "ratio", "higher"),
            Metric("violations", "violations", "lower"),
            Metric("calls_per_op:synchronize_srcu", "calls", "lower"),
            Metric("calls_per_op:synchronize_rcu", "calls", "lower"),
            Metric("instructions_per_op", "instructions", "lower"),
        ),
        parameters=(
            HZ,
            CPUS,
            QUEUES,
            Parameter("namespaces", "namespaces of the controller", "", 1, 1024),
            Parameter("transport", "how the host reaches the target", choices=("tcp", "loop")),
        ),
        rows=(
            RowMap("cover-64-tcp", "tcp-64", "disconnect_ms", "before", "series", counts=COUNTS),
            *_rows(),
            RowMap("over-a-second", "tcp-64", "disconnect_ms", "before", ""),
            RowMap(
                "time-proportional-to-namespaces",
                "tcp-8",
                "disconnect_ms",
                "before",
                "before",
                after_case="tcp-64",
            ),
            RowMap(
                "removal-still-waits",
                "tcp-64",
                "ns_remove_ms",
                "before",
                "series",
                finding=QUEUES_FOR_SYSFS,
                guest=FROM_INSIDE,
            ),
            RowMap("waits-overlap", "tcp-64", "overlap_ratio", "before", "series", guest=FROM_INSIDE),
            RowMap("elevator-switch-kept-out", "elevator-stress", "violations", "before", "series"),
        ),
    )
