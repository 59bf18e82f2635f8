"""The machine's Debian mirror is found in every form that apt takes."""

from __future__ import annotations

from pathlib import Path

from mqlab.kernels.apt_sources import debian_source, parse_deb822, parse_one_line, read_sources

DEB822 = """\
# Modernized
Types: deb deb-src
URIs: http://mirror.example/debian
Suites: trixie trixie-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Enabled: no
Types: deb
URIs: http://old.example/debian
Suites: bookworm
Components: main

Types: deb
URIs: http://security.example/debian-security
Suites: trixie-security
Components: main

Types: deb
URIs: http://vendor.example/apt
Suites: nodistro
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
"""


def test_deb822_stanzas() -> None:
    first, security, vendor = parse_deb822(DEB822)
    assert first.uris == ("http://mirror.example/debian",)
    assert first.suites == ("trixie", "trixie-updates")
    assert first.signed_by == "/usr/share/keyrings/debian-archive-keyring.gpg"
    assert first.is_debian()
    assert not security.is_debian()
    assert not vendor.is_debian()
    assert "BEGIN PGP" in vendor.signed_by


def test_one_line_entries() -> None:
    text = """
    deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian bookworm main non-free # ours
    # deb http://off.example/debian sid main
    deb-src http://mirror.example/debian bookworm main
    deb http://archive.example/ubuntu noble main
    """
    debian, ubuntu = parse_one_line(text)
    assert debian.signed_by == "/k.gpg"
    assert debian.components == ("main", "non-free")
    assert debian.is_debian()
    assert not ubuntu.is_debian()


def test_the_machines_files_are_read_in_apts_order(tmp_path: Path) -> None:
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text("deb http://archive.example/ubuntu noble main\n")
    (parts / "debian.sources").write_text(DEB822)
    (parts / "off.sources.disabled").write_text(DEB822.replace("mirror", "wrong"))
    (parts / "a.list").write_text("deb http://first.example/debian sid main\n")
    source = debian_source(read_sources(tmp_path))
    assert source is not None
    assert source.uris == ("http://first.example/debian",)


def test_a_machine_without_a_debian_mirror_has_none(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text("deb http://archive.example/ubuntu noble main\n")
    assert debian_source(read_sources(tmp_path)) is None
    assert debian_source([]) is None
