"""Toolchains by name: what ckwatch installed, what lies below `/opt`, Composable Kernel, and folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.compile.toolchain.composable_kernel import RELEASES
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.model import FixedToolchainChoice, Toolchain
from ckwatch.compile.toolchain.named import chosen_by_name, find_ck4inductor, installed_names
from ckwatch.model.errors import ToolchainError
from ckwatch.model.toolchain_names import fits_version, is_toolchain_name, toolchain_parts
from helpers.rocm_trees import make_ck, make_installed, make_rocm, make_sources


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine with two ROCms and two CKs of ckwatch's, two ROCms in `opt`, and CK's headers in a folder."""
    cache = tmp_path / ".cache/ckwatch"
    make_installed(cache / "toolchains", "rocm-7.2.4-aaaaaaaa")
    make_installed(cache / "toolchains", "rocm-7.2.4-clang-23-bbbbbbbb", ck=False)
    make_installed(cache / "toolchains", "rocm-6.4.3-cccccccc", version="6.4.3", ck=False)
    for release in RELEASES:
        make_sources(cache, release)
    make_rocm(tmp_path / "opt/rocm-6.4.2", "6.4.2")
    make_rocm(tmp_path / "opt/rocm-7.0.2", "7.0.2")
    make_ck(tmp_path / "checkout/include", "1.3.0")
    return tmp_path


def find(machine: Path, name: str, choice: FixedToolchainChoice | None = None) -> Toolchain:
    env = {"HOME": str(machine), "PATH": "/usr/bin:/bin"}
    chosen = chosen_by_name(name, choice or FixedToolchainChoice(), env, folder=machine)
    return discover(chosen, env, opt=machine / "opt")


@pytest.mark.parametrize(
    ("lists", "ck", "activated", "found"),
    [
        ("checkout/python", "checkout", "", "ckwatch.toml"),
        ("checkout/python", "checkout/include", "", "ckwatch.toml"),
        ("checkout/python", "checkout/include/ck", "", "ckwatch.toml"),
        ("v/lib/python3.12/site-packages", "v/lib/python3.12/site-packages/ck4inductor", "", "ckwatch.toml"),
        ("v/lib/python3.12/site-packages", "v/lib/python3.12/site-packages/ck4inductor/include", "", "ckwatch.toml"),
        ("v/lib/python3.12/site-packages", None, "VIRTUAL_ENV", "the wheel"),
        ("v/lib/python3.12/site-packages", None, "CONDA_PREFIX", "the wheel"),
        ("v/lib/python3.12/site-packages", None, "", None),
    ],
)
def test_ck4inductor_comes_with_the_ck_that_is_there(
    tmp_path: Path, lists: str, ck: str | None, activated: str, found: str | None
) -> None:
    (tmp_path / lists / "ck4inductor").mkdir(parents=True)
    env = {"HOME": str(tmp_path), activated: str(tmp_path / "v")}
    library = find_ck4inductor(FixedToolchainChoice(ck=None if ck is None else tmp_path / ck), env)
    assert (library and (library.folder, library.origin)) == (found and (tmp_path / lists, found))


@pytest.mark.parametrize(
    ("name", "root", "ck", "tile"),
    [
        ("rocm-7.2", "rocm-7.2.4-aaaaaaaa", "1.2.0", "1.2.0"),
        ("rocm-7", "rocm-7.2.4-aaaaaaaa", "1.2.0", "1.2.0"),
        ("rocm-7.2.4-aaaaaaaa", "rocm-7.2.4-aaaaaaaa", "1.2.0", "1.2.0"),
        ("rocm-7.2-clang-23", "rocm-7.2.4-clang-23-bbbbbbbb", "1.2.0", "1.2.0"),
        ("rocm-6.4", "rocm-6.4.3-cccccccc", "1.2.0", "1.2.0"),
        ("rocm-6.4.2", "opt/rocm-6.4.2", "1.1.0", None),
        ("rocm-7.0", "opt/rocm-7.0.2", "1.1.0", None),
        ("opt/rocm-7.0.2", "opt/rocm-7.0.2", "1.1.0", None),
        ("rocm-6.4+ck-1.1", "rocm-6.4.3-cccccccc", "1.1.0", "1.1.0"),
        ("opt/rocm-7.0.2+ck-1.2.0", "opt/rocm-7.0.2", "1.2.0", "1.2.0"),
        ("rocm-6.4.3+./checkout", "rocm-6.4.3-cccccccc", "1.3.0", "1.3.0"),
        ("ck-1.1.0", "opt/rocm-7.0.2", "1.1.0", "1.1.0"),
        ("checkout", "opt/rocm-7.0.2", "1.3.0", "1.3.0"),
    ],
)
def test_names(machine: Path, name: str, root: str, ck: str, tile: str | None) -> None:
    found = find(machine, name)
    assert str(found.root).removesuffix("/usr").endswith(root)
    assert found.ck is not None
    assert found.ck.version == ck
    assert found.ck_tile is not None
    assert (found.ck_tile.folder == found.root / "include") == (tile is None)
    assert tile in (None, found.ck_tile.version) or found.ck_tile.folder == machine / "checkout/include"


def test_what_a_name_leaves_open_is_the_workspaces_choice(machine: Path) -> None:
    choice = FixedToolchainChoice(rocm=Path("rocm-6.4"), ck=Path("ck-1.1.0"))
    found = find(machine, "rocm-7.2", choice)
    assert (found.rocm_version, found.ck and found.ck.version) == ("7.2.4", "1.1.0")
    found = find(machine, "ck-1.2.0", choice)
    assert (found.rocm_version, found.ck and found.ck.version) == ("6.4.3", "1.2.0")


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        (
            "rocm-6.1",
            "rocm-6.1 is not installed; there is rocm-6.4.2, rocm-6.4.3, rocm-7.0.2, rocm-7.2.4",
            "toolchain install --rocm 6.1`",
        ),
        ("rocm-6.4-clang-23", "rocm-6.4-clang-23 is not installed", "install --rocm 6.4 --clang 23`"),
        ("ck-1.3.0", "ck-1.3.0 is not installed; there is ck-1.2.0, ck-1.1.0", "install --ck 1.3.0`"),
        ("roc-6.4", "no toolchain is called 'roc-6.4', and there is no folder", "Installed: rocm-"),
        ("rocm-7.2=", "no toolchain is called 'rocm-7.2='", "Installed: rocm-"),
        ("opt", "opt: .* has no bin/hipcc", "ckwatch toolchain install"),
    ],
)
def test_what_is_not_there_is_told(machine: Path, name: str, message: str, hint: str) -> None:
    with pytest.raises(ToolchainError, match=message) as raised:
        find(machine, name)
    assert hint in (raised.value.hint or "")


def test_the_names_of_what_is_installed(machine: Path) -> None:
    names = installed_names({"HOME": str(machine)})
    assert sorted(names) == ["ck-1.1.0", "ck-1.2.0", "rocm-6.4.3", "rocm-7.2.4", "rocm-7.2.4-clang-23"]


def test_what_is_a_name() -> None:
    assert [text for text in ("rocm-6", "ck-1.1.0", "rocm", "/opt/rocm-6", "rocm-6/x") if is_toolchain_name(text)] == [
        "rocm-6",
        "ck-1.1.0",
    ]
    assert toolchain_parts("/opt/a+b+ck-1.1.0") == ("/opt/a+b", "ck-1.1.0")
    assert fits_version("7.2", "7.2.4")
    assert not fits_version("7.2", "7.20.1")
