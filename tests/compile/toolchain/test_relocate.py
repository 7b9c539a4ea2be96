"""Relocation of small programs that the host's compiler builds."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ckwatch.compile.toolchain import relocate as room
from ckwatch.compile.toolchain.relocate import (
    elf_files,
    find_patchelf,
    is_c_library,
    library_folders,
    relocate,
    settle,
)
from ckwatch.model.errors import ToolchainError

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this system")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with a program, a library it needs, a loader, scripts and broken files, in a path with a space."""
    root = tmp_path / "a tree"
    programs, libraries = root / "usr/bin", root / "usr/lib/x86_64-linux-gnu"
    for folder in (programs, libraries):
        folder.mkdir(parents=True)
    library, program = tmp_path / "l.c", tmp_path / "p.c"
    library.write_text("int answer(void) { return 42; }")
    program.write_text("int answer(void); int main(void) { return answer(); }")
    shared = libraries / "libanswer.so"
    subprocess.run(["gcc", "-shared", "-fPIC", library, "-o", shared], check=True)
    subprocess.run(["gcc", program, "-o", programs / "program", f"-L{libraries}", "-lanswer"], check=True)
    (programs / "link").symlink_to("program")
    (programs / "script").write_text("#!/bin/sh\n")
    (programs / "short").write_bytes(b"\x7fELF\x02\x01")
    (libraries / "liba.a").write_bytes(b"!<arch>\n")
    loader = Path("/lib64/ld-linux-x86-64.so.2")
    shutil.copy(loader.resolve(), libraries / loader.name)
    shutil.copy(Path("/lib/x86_64-linux-gnu/libc.so.6").resolve(), libraries / "libc.so.6")
    return root


def ask(option: str, path: Path) -> str:
    return subprocess.run([find_patchelf(), option, path], capture_output=True, text=True, check=True).stdout.strip()


def test_a_program_runs_from_where_the_tree_is_moved_to(tree: Path) -> None:
    final = tree.with_name("final ü")
    assert subprocess.run([tree / "usr/bin/program"], capture_output=True).returncode == 127
    before = (tree / "usr/lib/x86_64-linux-gnu/libc.so.6").read_bytes()
    assert relocate(tree, final) == 2
    assert (tree / "usr/lib/x86_64-linux-gnu/libc.so.6").read_bytes() == before
    tree.rename(final)
    program = final / "usr/bin/program"
    assert ask("--print-interpreter", program) == str(final / "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2")
    assert ask("--print-rpath", program) == str(final / "usr/lib/x86_64-linux-gnu")
    assert subprocess.run([program]).returncode == 42
    dynamic = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    assert "(RPATH)" in dynamic
    assert "(RUNPATH)" not in dynamic


def test_only_dynamic_elf_files_are_touched(tree: Path) -> None:
    found = {elf.path.name: elf.is_program for elf in elf_files(tree) if not is_c_library(elf.path)}
    assert found == {"program": True, "libanswer.so": False}
    assert library_folders(tree) == (tree / "usr/lib/x86_64-linux-gnu",)


def test_a_tree_without_loader_is_refused(tree: Path) -> None:
    (tree / "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2").unlink()
    with pytest.raises(ToolchainError, match="no program loader"):
        relocate(tree, tree)


def test_what_patchelf_refuses_is_reported(tree: Path) -> None:
    with pytest.raises(ToolchainError, match="patchelf cannot relocate"):
        relocate(tree, tree, lambda: shutil.which("false") or "")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("libc.so.6", True),
        ("libm.so.6", True),
        ("ld-linux-x86-64.so.2", True),
        ("libnss_files.so.2", True),
        ("libcurl.so.4", False),
        ("libmd.so.0", False),
        ("libclang-cpp.so.22.1", False),
        ("libstdc++.so.6", False),
        ("libdrm.so.2", False),
    ],
)
def test_the_c_library_is_left_alone(name: str, expected: bool) -> None:
    assert is_c_library(Path("/x", name)) is expected


@pytest.fixture
def complete(tree: Path) -> Path:
    """The tree as an install leaves it, with a library of two names."""
    relocate(tree, tree)
    (tree / "made.json").write_text(json.dumps({"root": str(tree), "packages": ["program=aa"]}))
    return tree


@pytest.mark.parametrize("copy", [shutil.copy2, os.link], ids=["copied", "hard-linked"])
def test_a_copy_runs_without_the_original_and_leaves_it_alone(complete: Path, copy: Callable[..., object]) -> None:
    before = {path: path.read_bytes() for path in complete.rglob("*") if path.is_file()}
    second = complete.with_name("copy ü")
    shutil.copytree(complete, second, symlinks=True, copy_function=copy)
    settle(second, "made.json")
    assert {path: path.read_bytes() for path in before} == before
    shutil.rmtree(complete)
    assert subprocess.run([second / "usr/bin/program"]).returncode == 42
    assert json.loads((second / "made.json").read_text()) == {"root": str(second), "packages": ["program=aa"]}
    assert not [*second.rglob("*.partial")]


def test_a_tree_that_was_moved_runs_again(complete: Path) -> None:
    moved = complete.rename(complete.with_name("moved"))
    settle(moved, "made.json")
    assert subprocess.run([moved / "usr/bin/link"]).returncode == 42


def test_a_tree_that_links_lead_to_is_left_as_it_is(complete: Path) -> None:
    link = complete.with_name("link")
    link.symlink_to(complete)
    settle(link, "made.json")
    assert json.loads((complete / "made.json").read_text())["root"] == str(complete)


def test_a_moved_tree_that_cannot_be_changed_is_refused(complete: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = complete.rename(complete.with_name("moved"))

    def read_only(path: Path) -> Path:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(room, "temporary_beside", read_only)
    with pytest.raises(ToolchainError, match="cannot be changed to run here: Read-only file system"):
        settle(moved, "made.json")
