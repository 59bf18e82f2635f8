"""What a user may name, the cache, and the way to an answer when there is no kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqlab.errors import UnsupportedError, UsageError
from mqlab.kernels.apt import Package, open_apt
from mqlab.kernels.cache import KernelCache, cache_root
from mqlab.kernels.debian import DebianRequest, fetch_debian, parse_request
from mqlab.kernels.find import find_kernel
from mqlab.kernels.kernel import Kernel, config_value


def silent(_line: str) -> None:
    return


def package(name: str, version: str, depends: str = "") -> Package:
    return Package(name, version, depends, "")


@pytest.mark.parametrize(
    ("text", "version", "flavour"),
    [("7.3-cloud", "7.3", "cloud"), ("6.12", "6.12", ""), ("7.3.4-rt", "7.3.4", "rt")],
)
def test_a_request_has_version_and_flavour(text: str, version: str, flavour: str) -> None:
    request = parse_request(text)
    assert request == DebianRequest(version, flavour)
    assert request.text() == f"debian:{text}"


@pytest.mark.parametrize(
    "source", ["debian:", "debian:trixie", "debian:7.3-desktop", "nowhere", "image:", "image:/no"]
)
def test_what_names_no_kernel_is_refused_with_the_forms(source: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_kernel(source)
    assert "debian:" in caught.value.remedy


@pytest.mark.parametrize(
    ("request_", "name", "version", "accepted"),
    [
        ("7.3-cloud", "linux-image-7.3.4+deb13-cloud-amd64", "7.3.4-1~bpo13+1", True),
        ("7.3-cloud", "linux-image-7.3.4+deb13-amd64", "7.3.4-1", False),
        ("7.3", "linux-image-7.3.4+deb13-amd64", "7.3.4-1", True),
        ("7.3", "linux-image-7.3.4+deb13-rt-amd64", "7.3.4-1", False),
        ("7.3", "linux-image-7.30.1+deb13-amd64", "7.30.1-1", False),
        ("7.3-cloud", "linux-image-7.3.4+deb13-cloud-amd64-dbg", "7.3.4-1", False),
        ("6.1-cloud", "linux-image-6.1.0-37-cloud-amd64", "6.1.140-1", True),
        ("7", "linux-image-cloud-amd64", "7.3.4-1", False),
    ],
)
def test_a_request_accepts_its_own_packages(request_: str, name: str, version: str, accepted: bool) -> None:
    assert parse_request(request_).accepts(package(name, version)) is accepted


def test_companions_are_the_packages_of_the_same_version() -> None:
    depends = (
        "linux-base (>= 4.17~), dracut | initramfs-tools, linux-base-7.3.4 (= 7.3.4-1~bpo13+1), "
        "linux-modules-7.3.4+deb13 (= 7.3.4-1~bpo13+1), linux-other (= 1)"
    )
    image = package("linux-image-7.3.4", "7.3.4-1~bpo13+1", depends)
    assert image.companions() == ["linux-base-7.3.4", "linux-modules-7.3.4+deb13"]


def kept(cache: KernelCache, version: str) -> Kernel:
    """A cache entry with the parts of a kernel."""
    name = f"linux-image-{version}+deb13-cloud-amd64_{version}-1"
    with cache.locked(), cache.staging() as folder:
        modules = folder / "usr/lib/modules/r"
        modules.mkdir(parents=True)
        (modules / "vmlinuz").write_bytes(b"image")
        (modules / "config").write_text("CONFIG_HZ_250=y\nCONFIG_HZ=250\n")
        kernel = Kernel("debian:x", "r", f"{version}-1", modules / "vmlinuz", modules, modules / "config")
        return cache.keep(name, folder, kernel)


def test_the_newest_cached_point_release_needs_no_mirror(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    for version in ("7.3.4", "7.3.10", "7.2.12"):
        kept(cache, version)
    found = fetch_debian(parse_request("7.3-cloud"), cache, silent)
    assert found.version == "7.3.10-1"
    assert found.hz() == 250
    assert found.image.read_bytes() == b"image"


def test_a_half_made_entry_is_no_kernel(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    with cache.locked(), cache.staging() as folder:
        (folder / "kernel.json").write_text("{}")
        assert cache.names() == []
    kernel = kept(cache, "7.3.4")
    kernel.image.unlink()
    assert cache.names() == []
    assert list(cache.entries.glob(".making-*")) == []


def test_what_a_killed_process_left_goes_with_the_next_fetch(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path)
    kept(cache, "7.3.4")
    (cache.entries / ".making-left").mkdir()
    with cache.locked():
        assert not list(cache.entries.glob(".making-*"))
    assert len(cache.names()) == 1


def test_the_cache_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "mqlab"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_root() == Path("/home/somebody/.cache/mqlab")


def test_a_cache_that_cannot_be_written_says_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnsupportedError) as caught, KernelCache(tmp_path / "file").locked():
        pass
    assert "XDG_CACHE_HOME" in caught.value.remedy


def test_without_a_debian_mirror_the_answer_names_the_other_sources(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as caught:
        open_apt(tmp_path / "state", silent, apt=tmp_path)
    assert "no Debian mirror" in caught.value.message
    assert "image:PATH" in caught.value.remedy


def test_an_image_of_the_users_own_takes_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "bzImage").write_bytes(b"kernel")
    bare = find_kernel(f"image:{tmp_path / 'bzImage'}")
    assert (bare.modules, bare.config, bare.hz()) == (None, None, None)
    (tmp_path / ".config").write_text("CONFIG_HZ=1000\n")
    assert find_kernel(f"image:{tmp_path / 'bzImage'}").hz() == 1000


def test_a_release_that_is_not_installed_is_said_so() -> None:
    with pytest.raises(UnsupportedError, match=r"0\.0\.1-none"):
        find_kernel("installed:0.0.1-none")


def test_config_values() -> None:
    text = 'CONFIG_HZ=250\n# CONFIG_SMP is not set\nCONFIG_NAME="x y"\n'
    assert config_value(text, "HZ") == "250"
    assert config_value(text, "NAME") == "x y"
    assert config_value(text, "SMP") is None
    assert config_value(text, "H") is None
