from __future__ import annotations

import random

from mqlab.kernels.version_order import version_key

IN_ORDER = [
    "5.15.0-91-generic",
    "6.1.176-cloud-amd64",
    "6.9",
    "6.9.12",
    "6.10-rc1",
    "6.10.0-rc2",
    "6.10-rc10",
    "6.10",
    "6.10.1",
    "6.12.95+deb13-cloud-amd64",
    "7.3-rc5",
    "7.3.4",
    "7.10",
    "bzImage",
]


def test_kernels_come_in_the_order_of_release() -> None:
    for seed in range(20):
        shuffled = IN_ORDER.copy()
        random.Random(seed).shuffle(shuffled)
        assert sorted(shuffled, key=version_key) == IN_ORDER


def test_what_stands_around_the_numbers_decides_nothing() -> None:
    assert version_key("debian:6.12-cloud")[:4] == version_key("6.12")[:4]
    assert version_key("v6.10-rc1")[:4] == version_key("6.10.0-rc1")[:4]
