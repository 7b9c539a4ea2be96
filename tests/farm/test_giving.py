"""A toolchain that is given: what is taken of an archive, and what is not."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from ckwatch.farm.giving import given_folder, given_toolchains, install_given, pack_toolchain, receive, received
from ckwatch.model.errors import CkwatchError

IDENTITY = "0123456789abcdef"


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as packed:
        for member, text in members:
            member.size = len(text)
            packed.addfile(member, io.BytesIO(text))
    return content.getvalue()


def link(name: str, target: str) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname = tarfile.SYMTYPE, target
    return found


def send(farm: Path, content: bytes, sha256: str = "") -> str:
    digest = sha256 or hashlib.sha256(content).hexdigest()
    half = len(content) // 2
    receive(farm, digest, 0, content[:half])
    assert received(farm, digest) == half
    receive(farm, digest, half, content[half:])
    assert received(farm, digest) == len(content)
    return digest


@pytest.mark.parametrize(
    "content",
    [
        archive((tarfile.TarInfo("../outside"), b"x")),
        archive((tarfile.TarInfo("toolchain/../../outside"), b"x")),
        archive((link("toolchain/link", "/etc"), b"")),
        archive((link("toolchain/link", "../../../.."), b""), (tarfile.TarInfo("toolchain/link/outside"), b"x")),
        archive((tarfile.TarInfo("/outside"), b"x")),
        b"no archive at all" * 100,
        archive((tarfile.TarInfo("toolchain/file"), b"x" * 10_000))[:8000],
    ],
)
def test_nothing_is_unpacked_outside(tmp_path: Path, content: bytes) -> None:
    farm = tmp_path / "farm"
    digest = send(farm, content)
    with pytest.raises(CkwatchError):
        anyio.run(install_given, farm, digest, IDENTITY)
    assert {path.name for path in given_folder(farm).iterdir()} <= {".lock"}
    assert not (tmp_path / "outside").exists()
    assert not (farm / "outside").exists()


def test_what_was_changed_on_its_way_is_not_unpacked(tmp_path: Path) -> None:
    digest = send(tmp_path, archive((tarfile.TarInfo("toolchain/file"), b"x")), sha256="a" * 64)
    with pytest.raises(CkwatchError, match="changed on its way"):
        anyio.run(install_given, tmp_path, digest, IDENTITY)
    assert received(tmp_path, digest) == 0


@pytest.mark.parametrize("name", ["../x", "", "a/b", "."])
def test_names_stay_in_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(CkwatchError, match="not a name of a toolchain"):
        receive(tmp_path, name, 0, b"x")
    with pytest.raises(CkwatchError, match="not a name of a toolchain"):
        anyio.run(install_given, tmp_path, "a" * 64, name)


def test_only_a_private_toolchain_can_be_given(tmp_path: Path) -> None:
    toolchain = cast("Any", SimpleNamespace(root=tmp_path / "opt/rocm", title="ROCm 7 at /opt/rocm"))
    with pytest.raises(CkwatchError, match="was not installed by ckwatch"):
        pack_toolchain(toolchain, IDENTITY, tmp_path / "packed")


def test_what_is_no_toolchain_is_passed_over(tmp_path: Path) -> None:
    assert given_toolchains(tmp_path) == {}
    (given_folder(tmp_path) / IDENTITY / "toolchain").mkdir(parents=True)
    assert given_toolchains(tmp_path) == {}


def test_a_second_daemon_leaves_what_is_there(tmp_path: Path) -> None:
    there = given_folder(tmp_path) / IDENTITY / "toolchain"
    there.mkdir(parents=True)
    digest = send(tmp_path, archive((tarfile.TarInfo("toolchain/file"), b"x")))
    anyio.run(install_given, tmp_path, digest, IDENTITY)
    assert there.is_dir()
    assert received(tmp_path, digest) == 0


def test_what_killed_workers_left_goes(tmp_path: Path) -> None:
    left = given_folder(tmp_path) / f".{IDENTITY}-12ab"
    left.mkdir(parents=True)
    old = given_folder(tmp_path) / f".{'b' * 64}.part"
    old.touch()
    os.utime(old, (1, 1))
    with pytest.raises(CkwatchError):
        anyio.run(install_given, tmp_path, send(tmp_path, b"no archive"), IDENTITY)
    assert not left.exists()
    assert not old.exists()
