"""Which tests run only on demand."""

from __future__ import annotations

import os

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Kernels that take minutes to build are no part of `make test`."""
    if os.environ.get("MQLAB_TEST_KERNELS"):
        return
    skip = pytest.mark.skip(reason="builds or boots kernels that take long to make; run by make test-kernels")
    for item in items:
        if item.get_closest_marker("kernels") is not None:
            item.add_marker(skip)
