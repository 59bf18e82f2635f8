"""plug-batch: a batch of tags that came back partial, tried again inside the plug."""

from __future__ import annotations

from mqlab.experiments._common import CPUS, DEPTH, HZ
from mqlab.model import Case, Curve, Experiment, Metric, RowMap, Variant, experiment
from mqlab.parameters import Parameter, Scalar

MACHINE: dict[str, Scalar] = {"hz": 1000, "cpus": 16}
# How many of the requests in flight the device holds back while later ones complete: 0 is in order.
HELD_BACK = (0, 12, 24, 36, 48, 60, 72, 90, 104)
CURVE_CASES = tuple(f"held-back-{h}" for h in HELD_BACK)


def _case(id_: str, title: str, **params: Scalar) -> Case:
    return Case(id_, "plug_batch", {**MACHINE, **params}, title)


@experiment
def plug_batch() -> Experiment:
    """A plug asks for a batch of tags once; where the bitmap is fragmented it gets fewer, and every further
    request allocated its tag alone. What does asking for a batch again bring?
    """
    return Experiment(
        id="plug-batch",
        title="batch tag allocation tried again inside a plug",
        thread="plug-batch",
        variants=(
            Variant("before", "one batch a plug", {"batch_retry": "off"}),
            Variant("patch", "a batch again after a partial one", {"batch_retry": "on"}),
        ),
        cases=(
            _case("gen3-ssd", "PCIe Gen3 SSD, 1 thread", device="gen3_ssd", threads=1, depth=128, batch=32),
            _case("gen4-ssd", "PCIe Gen4 SSD, 1 thread", device="gen4_ssd", threads=1, depth=128, batch=32),
            _case("gen5-ssd", "PCIe Gen5 SSD, 1 thread", device="gen5_ssd", threads=1, depth=128, batch=32),
            _case(
                "optane-1-thread",
                "two Optane SSDs, 1 thread",
                device="optane",
                threads=1,
                depth=128,
                batch=32,
            ),
            _case(
                "optane-2-threads",
                "two Optane SSDs, 2 threads",
                device="optane",
                threads=2,
                depth=128,
                batch=32,
            ),
            *(
                _case(
                    f"held-back-{h}",
                    f"random completion order, {h} of 128 held back",
                    device="ublk",
                    threads=1,
                    depth=128,
                    batch=32,
                    held_back=h,
                )
                for h in HELD_BACK
            ),
        ),
        metrics=(
            Metric("iops", "IOPS", "higher"),
            Metric("cpu_share_alloc_percent", "%", "lower"),
            Metric("allocations_per_io", "allocations", "lower"),
            Metric("partial_share", "ratio", "lower"),
        ),
        parameters=(
            HZ,
            CPUS,
            DEPTH,
            Parameter(
                "device",
                "class of device",
                choices=("gen3_ssd", "gen4_ssd", "gen5_ssd", "optane", "ublk"),
            ),
            Parameter("threads", "submitting threads", "", 1, 256),
            Parameter("batch", "requests submitted under one plug", "", 1, 64),
            Parameter("tags", "tags of a hardware queue", "", 1, 10_240),
            Parameter("held_back", "requests held back while later ones complete", "", 0, 10_240),
        ),
        rows=(
            RowMap("gen3-iops", "gen3-ssd", "iops", "before", "patch"),
            RowMap("gen4-iops", "gen4-ssd", "iops", "before", "patch"),
            RowMap("gen5-iops", "gen5-ssd", "iops", "before", "patch"),
            RowMap("optane-1-thread-iops", "optane-1-thread", "iops", "before", "patch"),
            RowMap("optane-2-threads-iops", "optane-2-threads", "iops", "before", "patch"),
            RowMap("alloc-cpu-share", "gen4-ssd", "cpu_share_alloc_percent", "before", "patch"),
            RowMap("partial-batches", "held-back-90", "partial_share", "before", "patch"),
            RowMap("fewer-single-allocations", "held-back-90", "allocations_per_io", "before", "patch"),
        ),
        curves=(
            Curve(
                "allocations an I/O over how fragmented the bitmap is",
                "held_back",
                "allocations_per_io",
                CURVE_CASES,
                "before",
                "patch",
                ((0, 0.0312, 0.0312), (24, 0.1164, 0.1335), (48, 0.1923, 0.2003), (90, 0.2291, 0.2082)),
                "Linux 7.3.4 in a deterministic guest, ublk",
            ),
            Curve(
                "I/Os a second over how fragmented the bitmap is",
                "held_back",
                "iops",
                CURVE_CASES,
                "before",
                "patch",
                ((0, 231141, 231140), (24, 229792, 229451), (48, 227637, 227193), (90, 221993, 222859)),
                "Linux 7.3.4 in a deterministic guest, ublk",
            ),
        ),
    )
