"""Discovery of toolchains: places, order, and the message when there is none."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pytest

from ckwatch.compile.toolchain import relocate
from ckwatch.compile.toolchain.composable_kernel import RELEASES
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.installations import MANIFEST, set_current
from ckwatch.compile.toolchain.model import FixedToolchainChoice, Toolchain, ToolchainSource
from ckwatch.model.errors import ToolchainError
from helpers.rocm_trees import make_ck, make_installed, make_program, make_rocm, make_sources


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine with nothing on it: `opt`, a home and an empty PATH."""
    for name in ("opt", "home", "bin"):
        (tmp_path / name).mkdir()
    return tmp_path


def find(machine: Path, choice: FixedToolchainChoice | None = None, **env: str) -> Toolchain:
    base = {"HOME": str(machine / "home"), "PATH": f"{machine / 'bin'}:/usr/bin:/bin"}
    return discover(choice, {**base, **env}, opt=machine / "opt")


def toolchains(machine: Path) -> Path:
    return machine / "home/.cache/ckwatch/toolchains"


def test_the_order_of_the_search(machine: Path) -> None:
    make_installed(toolchains(machine))
    assert find(machine).source is ToolchainSource.INSTALLED

    on_path = make_rocm(machine / "elsewhere")
    (machine / "bin/hipcc").symlink_to(on_path / "bin/hipcc")
    found = find(machine)
    assert (found.source, found.root) == (ToolchainSource.PATH, on_path)

    system = make_rocm(machine / "opt/rocm")
    assert find(machine).source is ToolchainSource.SYSTEM
    assert find(machine).root == system

    named = make_rocm(machine / "named by environment")
    assert find(machine, ROCM_PATH=str(named)).source is ToolchainSource.ENVIRONMENT

    configured = make_rocm(machine / "configured")
    found = find(machine, FixedToolchainChoice(rocm=configured), ROCM_PATH=str(named))
    assert (found.source, found.root) == (ToolchainSource.CONFIG, configured)


def test_an_installed_tree_is_the_same_however_it_is_reached(machine: Path) -> None:
    manifest = make_installed(toolchains(machine))
    set_current(toolchains(machine), manifest.name)
    expected = find(machine)
    (machine / "cache").symlink_to(machine / "home/.cache")
    (machine / "rocm").symlink_to(manifest.root / "usr")
    by_current = str(toolchains(machine) / "current/usr")
    for found in (
        find(machine, XDG_CACHE_HOME=str(machine / "cache")),
        find(machine, PATH=f"{manifest.root / 'usr/bin'}:/usr/bin:/bin"),
        find(machine, ROCM_PATH=str(machine / "rocm")),
        find(machine, FixedToolchainChoice(rocm=Path(by_current))),
        find(machine, ROCM_PATH=by_current),
    ):
        assert (found.root, found.ck, found.hip_arguments) == (expected.root, expected.ck, expected.hip_arguments)
        assert found.identity == expected.identity


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"rocm-6.4.1": "6.4.1", "rocm-7.0.0": "7.0.0"}, "rocm-7.0.0"),
        ({"rocm-6.9.0": "6.9.0", "rocm-6.10.0": "6.10.0"}, "rocm-6.10.0"),
        ({"rocm": "7.0.0", "rocm-7.0.0": "7.0.0"}, "rocm"),
        ({"rocm": "6.0.0", "rocm-7.0.0": "7.0.0"}, "rocm-7.0.0"),
        ({"rocm-7.1": None, "rocm-6.4": None}, "rocm-7.1"),
    ],
)
def test_the_newest_in_opt_wins(machine: Path, names: dict[str, str | None], expected: str) -> None:
    for name, version in names.items():
        make_rocm(machine / "opt" / name, version)
    assert find(machine).root.name == expected


def test_what_does_not_work_is_passed_over_with_a_note(machine: Path) -> None:
    (machine / "opt/rocm").mkdir()
    make_installed(toolchains(machine))
    found = find(machine, ROCM_PATH=str(machine / "gone"))
    assert found.source is ToolchainSource.INSTALLED
    assert found.notes == (
        f"ROCM_PATH: {machine / 'gone'} is not a folder",
        f"/opt/rocm: {machine / 'opt/rocm'} has no bin/hipcc",
    )


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        ("bin/hipcc", "has no bin/hipcc"),
        ("lib/llvm/bin/clang++", "has hipcc and no clang++"),
        ("amdgcn/bitcode/ocml.bc", "has no device libraries"),
        ("include/hip/hip_runtime.h", "has no HIP headers"),
        ("lib/llvm/bin/clang-offload-bundler", "has no clang-offload-bundler"),
    ],
)
def test_a_configured_tree_must_be_whole(machine: Path, lost: str, message: str) -> None:
    make_installed(toolchains(machine))
    root = make_rocm(machine / "mine")
    (root / lost).unlink()
    with pytest.raises(ToolchainError, match=message.replace("+", r"\+")) as caught:
        find(machine, FixedToolchainChoice(rocm=root))
    assert "[toolchain] rocm" in caught.value.message


def test_without_any_the_error_says_where_it_looked_and_what_to_run(machine: Path) -> None:
    with pytest.raises(ToolchainError, match="no HIP compiler found") as caught:
        find(machine)
    for part in ("ROCM_PATH: not set", f"{machine / 'opt'}/rocm*: nothing there", "PATH: no hipcc", "none installed"):
        assert part in caught.value.message
    assert "ckwatch toolchain install" in (caught.value.hint or "")


def test_a_compiler_that_does_not_run_is_an_error_of_the_host(machine: Path) -> None:
    root = make_rocm(machine / "opt/rocm")
    make_program(root / "lib/llvm/bin/clang", "echo no such library >&2; exit 127")
    with pytest.raises(ToolchainError, match="failed with status 127: no such library"):
        find(machine)


def test_a_known_compiler_is_not_started_again(machine: Path) -> None:
    root = make_rocm(machine / "opt/rocm")
    first = find(machine)
    assert (root / "calls").read_text() == "call\n"
    assert find(machine) == first
    assert (root / "calls").read_text() == "call\n"
    make_program(root / "lib/llvm/bin/clang", "echo clang version 23")
    assert find(machine).clang_version == "clang version 23"
    assert find(machine).identity != first.identity


@pytest.mark.parametrize("damage", ["", "{", '{"format": 1}', '{"format": 1, "answers": []}', "[]"])
def test_a_damaged_probe_cache_costs_only_time(machine: Path, damage: str) -> None:
    make_rocm(machine / "opt/rocm")
    first = find(machine)
    (machine / "home/.cache/ckwatch/probes.json").write_text(damage)
    assert find(machine) == first


def test_identity_is_that_of_the_content_wherever_it_lies(machine: Path) -> None:
    root = make_rocm(machine / "a b ü", "7.0.0")
    (root / "lib/llvm/bin/clang").write_text("#!/bin/sh\necho clang version 22\n")
    first = find(machine, FixedToolchainChoice(rocm=root))
    moved = machine / "moved"
    shutil.copytree(root, moved)
    assert find(machine, FixedToolchainChoice(rocm=moved)).identity == first.identity
    (moved / "amdgcn/bitcode/ocml.bc").write_text("other")
    assert find(machine, FixedToolchainChoice(rocm=moved)).identity != first.identity


def test_the_environment_is_whole_and_without_hidden_inputs(machine: Path) -> None:
    root = make_rocm(machine / "opt/rocm")
    env = find(machine, HIPCC_COMPILE_FLAGS_APPEND="-O0", CPATH="/x", LANG="C", HIP_PLATFORM="nvidia").environment
    assert env["HIP_PLATFORM"] == "amd"
    assert env["ROCM_PATH"] == str(root)
    assert env["LANG"] == "C"
    assert not {"HIPCC_COMPILE_FLAGS_APPEND", "CPATH"} & env.keys()


def test_headers_come_from_the_tree_then_from_ckwatch(machine: Path) -> None:
    manifest = make_installed(toolchains(machine))
    root = make_rocm(machine / "opt/rocm")
    found = find(machine)
    assert found.ck is not None
    assert (found.ck.folder, found.ck.version, found.ck.origin) == (root / "include", "1.1.0", "ROCm")
    assert found.include_folders == (root / "include",)

    shutil.rmtree(root / "include/ck")
    shutil.rmtree(root / "include/ck_tile")
    make_ck(manifest.root / "ck_tile/include")  # of an install that had it from elsewhere: it does not fit
    found = find(machine)
    assert (found.include_folders, found.ck_tile) == ((manifest.root / "ck/include",), None)

    sources = make_sources(machine / "home/.cache/ckwatch")
    found = find(machine)
    assert found.include_folders == (manifest.root / "ck/include", sources.ck_tile)
    assert found.ck_tile is not None
    assert (found.ck_tile.version, found.ck_tile.origin) == ("1.2.0", RELEASES[0].origin)

    shutil.rmtree(manifest.root)
    assert find(machine).include_folders == (sources.ck, sources.ck_tile)

    shutil.rmtree(sources.root)
    found = find(machine)
    assert (found.ck, found.ck_tile, found.include_folders) == (None, None, ())


def test_a_tree_of_an_earlier_version_is_read(machine: Path) -> None:
    manifest = make_installed(toolchains(machine))
    file = manifest.root / MANIFEST
    file.write_text(json.dumps(json.loads(file.read_text()) | {"ck_tile_version": "flash-attn 2.8.3"}))
    assert find(machine).root == manifest.root / "usr"


@pytest.mark.parametrize("meant", ["", "include", "include/ck"])
def test_a_configured_ck_may_be_named_in_several_ways(machine: Path, meant: str) -> None:
    make_rocm(machine / "opt/rocm")
    make_ck(machine / "my ck/include")
    found = find(machine, FixedToolchainChoice(ck=machine / "my ck" / meant))
    assert found.include_folders == (machine / "my ck/include",)


def test_configured_headers_must_be_there(machine: Path) -> None:
    make_rocm(machine / "opt/rocm")
    with pytest.raises(ToolchainError, match=r"\[toolchain\] ck = .*: no ck/ck.hpp there"):
        find(machine, FixedToolchainChoice(ck=machine))
    with pytest.raises(ToolchainError, match=r"\[toolchain\] ck_tile = .*: no ck_tile/core.hpp there"):
        find(machine, FixedToolchainChoice(ck_tile=machine))
    (make_ck(machine / "source") / "ck/config.h").unlink()
    with pytest.raises(ToolchainError, match=r"without its generated ck/config\.h"):
        find(machine, FixedToolchainChoice(ck=machine / "source"))


def test_debian_layout_with_several_llvms(machine: Path) -> None:
    root = make_rocm(machine / "usr", llvm="lib/llvm-9/bin")
    shutil.rmtree(root / "amdgcn")
    shutil.rmtree(root / "lib/llvm-9")
    for major in (9, 22, 23):
        for name in ("clang", "clang++", "clang-offload-bundler", "llvm-readelf", "llvm-objdump"):
            make_program(root / f"lib/llvm-{major}/bin/{name}", "echo clang version 22")
    for major in (9, 22):  # 23 has no device libraries
        bitcode = root / f"lib/llvm-{major}/lib/clang/{major}/amdgcn/bitcode"
        bitcode.mkdir(parents=True)
        (bitcode / "ocml.bc").write_text("")
    found = find(machine, PATH=str(root / "bin"))
    assert found.source is ToolchainSource.PATH
    assert found.clangxx == root / "lib/llvm-22/bin/clang++"
    assert found.device_libraries == root / "lib/llvm-22/lib/clang/22/amdgcn/bitcode"


def test_the_chosen_one_of_several_installed(machine: Path) -> None:
    folder = toolchains(machine)
    first, second = make_installed(folder, "rocm-1"), make_installed(folder, "rocm-2")
    for manifest in (first, second, first):
        set_current(folder, manifest.name)
        assert find(machine).root == manifest.root / "usr"


def test_a_tree_that_was_moved_is_the_same_toolchain(machine: Path) -> None:
    manifest = make_installed(toolchains(machine))
    before = find(machine)
    moved = manifest.root.rename(manifest.root.with_name("rocm-moved"))
    found = find(machine)
    assert (found.root, found.identity, found.source) == (moved / "usr", before.identity, before.source)
    assert found.ck is not None
    assert found.ck.folder == moved / "ck/include"
    copy = shutil.copytree(moved, machine / "a copy", symlinks=True)
    by_path = find(machine, ROCM_PATH=str(copy / "usr"))
    assert (by_path.root, by_path.identity) == (copy / "usr", before.identity)


def test_a_moved_tree_that_cannot_be_changed_says_so(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = make_installed(toolchains(machine))
    manifest.root.rename(manifest.root.with_name("rocm-moved"))

    def read_only(path: Path, *_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(relocate, "replace_file", read_only)
    with pytest.raises(ToolchainError, match="cannot be changed to run here: Read-only file system"):
        find(machine)


@pytest.mark.parametrize(
    ("major", "unknown", "new_driver"),
    [(15, {"--no-offload-compress", "-fcaret-diagnostics-max-lines=1"}, False), (17, {"--no-offload-compress"}, False),
     (18, set(), False), (22, set(), False), (23, set(), True)],
)  # fmt: skip
def test_flags_depend_on_clangs_version(machine: Path, major: int, unknown: set[str], new_driver: bool) -> None:
    root = make_rocm(machine / "opt/rocm")
    make_program(root / "lib/llvm/bin/clang", f"echo 'Debian clang version {major}.0.6 (1)'")
    found = find(machine)
    assert set(found.unknown_flags) == unknown
    assert ("--no-offload-new-driver" in found.hip_arguments) == new_driver
