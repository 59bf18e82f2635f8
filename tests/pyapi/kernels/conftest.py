"""A repository that builds like a kernel in a second, and a cache of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqlab.kernels.cache import KernelCache

from .small_kernel import make_small_kernel


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_small_kernel(tmp_path / "linux")


@pytest.fixture
def cache(tmp_path: Path) -> KernelCache:
    return KernelCache(tmp_path / "cache")


@pytest.fixture
def small_fragment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands for the shipped ones, of which the small kernel knows no option."""
    folder = tmp_path / "fragments"
    (folder / "_kernel_configs").mkdir(parents=True)
    (folder / "_kernel_configs" / "base.config").write_text("CONFIG_HZ=1000\n")
    (folder / "_kernel_configs" / "rt.config").write_text("CONFIG_PREEMPT_RT=y\n")
    monkeypatch.setattr("mqlab.kernels.fragments.files", lambda _package: folder)
    return folder / "_kernel_configs"
