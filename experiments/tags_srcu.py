"""tags-srcu: what it costs that every tag set waits for its own SRCU grace period."""

from __future__ import annotations

from dataclasses import replace

from mqlab.experiments._common import CPUS, DEPTH, DEVICES, HZ, QUEUES, THREADS
from mqlab.model import Case, Experiment, Guest, GuestRow, Metric, RowMap, Variant, experiment
from mqlab.parameters import Parameter, Scalar

MACHINE: dict[str, Scalar] = {"hz": 1000, "cpus": 16}
DEVICE: dict[str, Scalar] = {**MACHINE, "queues": 1, "depth": 16}

NULL_BLK_MISS = (
    "a real kernel in the deterministic VM destroys a device in 17 ms, and so does the model with that "
    "machine's costs; the published machine takes 20, so its grace periods last longer than the model's"
)
FOLLOW_UP_MISS = (
    "16 threads after the change are slower in the model: a grace period ends at its first scan, or four "
    "jiffies later at its second, by what the CPUs do at that moment, so the row hangs on how busy they were"
)

NO_PUT_OUTSIDE = (
    "no kernel at hand drops the last reference of a ublk device outside ublk's mutex: neither a release "
    "up to 7.3 nor a patch of the thread does"
)
FROM_INSIDE = GuestRow(
    reason="it is a time inside of the kernel, which a guest does not measure; see the calls"
)
ENGINE_MEMORY = GuestRow(reason="the bytes are those of the model's own allocations")
UNTOLD = (
    "on a real kernel: devices that were added and never started, which the thread leaves open; those that "
    "were started and stopped stand in the row on patch 1 alone"
)
NO_ITERATOR = "no interface of a real kernel holds a tag iterator for a given time"

TABLE = ("before", "patch-1", "series")
FOLLOW_UP = ("before-put-outside", "series-put-outside")


UBLK = Guest(
    "ublk_lifecycle",
    {
        "add_dev_ms": "add_dev_ns",
        "del_dev_ms": "del_dev_ns",
        "stop_dev_ms": "stop_dev_ns",
        "delete_total_ms": "delete_total_ns",
    },
    params={"mode": "life"},
    takes=("devices", "threads", "queues", "depth"),
    counts=("srcu_barrier", "cleanup_srcu_struct"),
    modules=("ublk_drv",),
    kernel_args=("ublk_drv.ublks_max=100000",),  # 64 without, on Linux 6.3 to 6.14
)
NEVER_STARTED = replace(UBLK, params={"mode": "add_del"})
NULL_BLK = Guest(
    "null_blk_lifecycle",
    {"destroy_ms": "destroy_ns", "destroy_total_ms": "destroy_total_ns"},
    takes=("devices", "threads", "queues", "depth"),
    counts=("srcu_barrier", "cleanup_srcu_struct"),
    modules=("null_blk",),
)
COUNTS = ("calls_per_op:srcu_barrier", "instructions_per_op")


def _policies(srcu: str, argument: str, put: str) -> dict[str, Scalar]:
    return {"tags_srcu": srcu, "tag_set_argument": argument, "ublk_final_put": put}


@experiment
def tags_srcu() -> Experiment:
    """Each tag set owned an SRCU instance and waited for its grace period when it was freed, in ublk under
    a mutex. What does one instance for all of them save, and what does it cost?
    """
    return Experiment(
        id="tags-srcu",
        title="one SRCU instance for all tag sets",
        thread="tags-srcu",
        code=(
            "block/blk-mq-tag.c:blk_mq_init_tags,blk_mq_free_tags*,*_iter*,bt_*for_each*",
            "block/blk-mq.c:blk_mq_*tag_set*,blk_mq_init_hctx,blk_mq_exit_hctx,blk_mq_hctx_has_requests",
            "block/blk-mq.c:blk_mq_alloc_rq_map,blk_mq_free_rq*,blk_mq_*map_and_rqs,blk_mq_alloc_rqs",
            "block/blk-flush.c:blk_*_flush_queue*",
            "block/genhd.c:*del_gendisk*,disk_release,add_disk*",
            "block/blk-mq-sysfs.c",
            "include/linux/blk-mq.h",
            "drivers/block/ublk_drv.c:ublk_ctrl_*,ublk_stop_*,ublk_*add*,ublk_*remove*,ublk_cdev_*,ublk_ch_release",
            "drivers/block/null_blk/*:*add*,*del*,*destroy*,*init*,*alloc*,*free*",
            "kernel/rcu/*",
        ),
        variants=(
            Variant("before", "an SRCU instance a set", _policies("per_set", "kept", "under_mutex"), ()),
            Variant("patch-1", "one instance for all", _policies("global", "kept", "under_mutex"), (1,)),
            Variant(
                "series", "and no tag_set argument", _policies("global", "dropped", "under_mutex"), (1, 2)
            ),
            Variant(
                "before-put-outside",
                "an instance a set; the last reference dropped outside ublk's mutex",
                _policies("per_set", "kept", "outside_mutex"),
                kernel_reason=NO_PUT_OUTSIDE,
            ),
            Variant(
                "series-put-outside",
                "one instance for all; the last reference dropped outside ublk's mutex",
                _policies("global", "dropped", "outside_mutex"),
                kernel_reason=NO_PUT_OUTSIDE,
            ),
        ),
        cases=(
            Case(
                "ublk-1000-serial",
                "ublk_delete",
                {**DEVICE, "devices": 1000, "threads": 1},
                "delete 1000 ublk devices one after the other",
                TABLE,
                UBLK,
            ),
            Case(
                "ublk-4000-16-threads",
                "ublk_delete",
                {**DEVICE, "devices": 4000, "threads": 16},
                "delete 4000 ublk devices from 16 threads",
                (*TABLE, *FOLLOW_UP),
                UBLK,
            ),
            Case(
                "ublk-4000-serial",
                "ublk_delete",
                {**DEVICE, "devices": 4000, "threads": 1},
                "delete 4000 ublk devices one after the other, as in the follow-up",
                FOLLOW_UP,
                UBLK,
            ),
            Case(
                "ublk-1000-never-started",
                "ublk_delete",
                {**DEVICE, "devices": 1000, "threads": 1, "started": 0},
                "delete 1000 ublk devices that were added and never started, one after the other",
                TABLE,
                NEVER_STARTED,
            ),
            Case(
                "null-blk-500-serial",
                "null_blk_destroy",
                {**DEVICE, "devices": 500, "threads": 1},
                "destroy 500 null_blk devices one after the other",
                TABLE,
                NULL_BLK,
            ),
            Case(
                "null-blk-256-16-threads",
                "null_blk_destroy",
                {**DEVICE, "devices": 256, "threads": 16},
                "destroy 256 null_blk devices from 16 threads",
                TABLE,
                NULL_BLK,
            ),
            Case(
                "iterator-none",
                "tags_iterator_delay",
                {**MACHINE, "iterator_hold_ms": 0},
                "delete devices while no other set is iterated",
                ("before", "patch-1"),
                guest_reason=NO_ITERATOR,
            ),
            Case(
                "iterator-50-ms",
                "tags_iterator_delay",
                {**MACHINE, "iterator_hold_ms": 50},
                "delete devices while another set is iterated for 50 ms",
                ("before", "patch-1"),
                guest_reason=NO_ITERATOR,
            ),
            Case(
                "life-stress",
                "life_stress",
                {"hz": 1000, "cpus": 8, "threads": 8, "steps": 300},
                "devices come and go, elevators and depths change, iterators walk, all at once",
                ("before", "patch-1", "series"),
                guest_reason="it wants minutes on a kernel with checkers: see `mqlab stress`",
            ),
        ),
        metrics=(
            Metric("del_dev_ms", "ms", "lower"),
            Metric("stop_dev_ms", "ms", "lower"),
            Metric("delete_total_ms", "ms", "lower"),
            Metric("destroy_ms", "ms", "lower"),
            Metric("destroy_total_ms", "ms", "lower"),
            Metric("tag_set_free_wait_ms", "ms", "lower"),
            Metric("free_delay_ms", "ms", "lower"),
            Metric("bytes_per_tag_set", "bytes", "lower"),
            Metric("reports", "reports", "lower"),
            Metric("calls_per_op:srcu_barrier", "calls", "lower"),
            Metric("calls_per_op:cleanup_srcu_struct", "calls", "lower"),
            Metric("instructions_per_op", "instructions", "lower"),
        ),
        parameters=(
            HZ,
            CPUS,
            DEVICES,
            THREADS,
            QUEUES,
            DEPTH,
            Parameter("iterator_hold_ms", "how long an iterator of another set runs", "ms", 0, 10_000, False),
        ),
        rows=(
            RowMap(
                "del-dev-p50-serial",
                "ublk-1000-serial",
                "del_dev_ms",
                "before",
                "patch-1",
                guest=GuestRow(case="ublk-1000-never-started", note=UNTOLD),
                counts=COUNTS,
            ),
            RowMap("delete-1000-serial", "ublk-1000-serial", "delete_total_ms", "before", "patch-1"),
            RowMap("delete-4000-16-threads", "ublk-4000-16-threads", "delete_total_ms", "before", "patch-1"),
            RowMap(
                "null-blk-destroy-500-serial",
                "null-blk-500-serial",
                "destroy_total_ms",
                "before",
                "patch-1",
                finding=NULL_BLK_MISS,
                counts=COUNTS,
            ),
            RowMap(
                "null-blk-destroy-256-16-threads",
                "null-blk-256-16-threads",
                "destroy_total_ms",
                "before",
                "patch-1",
                finding=NULL_BLK_MISS,
            ),
            RowMap("followup-del-dev-p50-serial", "ublk-4000-serial", "del_dev_ms", *FOLLOW_UP),
            RowMap(
                "followup-delete-4000-16-threads",
                "ublk-4000-16-threads",
                "delete_total_ms",
                *FOLLOW_UP,
                finding=FOLLOW_UP_MISS,
            ),
            RowMap(
                "barrier-grace-period",
                "ublk-1000-serial",
                "tag_set_free_wait_ms",
                "before",
                "patch-1",
                guest=FROM_INSIDE,
                counts=("calls_per_op:srcu_barrier",),
            ),
            RowMap(
                "barrier-waits-though-callbacks-done",
                "ublk-1000-serial",
                "tag_set_free_wait_ms",
                "before",
                "",
                guest=FROM_INSIDE,
            ),
            RowMap("patch-1-brings-the-gain", "ublk-1000-serial", "del_dev_ms", "before", "patch-1"),
            RowMap("patch-2-changes-nothing", "ublk-1000-serial", "del_dev_ms", "patch-1", "series"),
            RowMap(
                "srcu-state-per-set",
                "ublk-1000-serial",
                "bytes_per_tag_set",
                "before",
                "patch-1",
                guest=ENGINE_MEMORY,
            ),
            RowMap("long-iterator-delays-frees", "iterator-50-ms", "free_delay_ms", "before", "patch-1"),
            RowMap(
                "long-iterator-delays-nothing-else",
                "iterator-none",
                "del_dev_ms",
                "patch-1",
                "patch-1",
                after_case="iterator-50-ms",
            ),
            RowMap("stress-without-reports", "life-stress", "reports", "before", "series"),
        ),
    )
