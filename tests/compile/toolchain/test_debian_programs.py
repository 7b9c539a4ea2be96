"""A program of Debian from end to end on small packages, with apt replaced; interrupted, repeated, refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from ckwatch.compile.toolchain.debian import AptPackage
from ckwatch.compile.toolchain.debian_programs import DebianProgram, fetch_program, find_trees
from ckwatch.compile.toolchain.install_steps import InstallStep
from ckwatch.model.errors import ToolchainError
from compile.toolchain.test_install import Archive
from helpers.rocm_trees import make_program

pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg on this system")

TOOL = DebianProgram("tool-2", "usr/bin/tool", r"usr/bin/tool|usr/share/tool/.+", 0)
FILES: dict[str, dict[str, str | None]] = {
    "tool-2": {"usr/bin/tool": "#!/bin/sh\n", "usr/bin/other": "", "usr/share/tool/data": "data"},
    "libneeded": {"usr/lib/x86_64-linux-gnu/libneeded.so.1": "not elf", "usr/include/needed.h": ""},
}


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path / "debs", FILES)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cäche with space" / "tools"


def made_executable(root: Path, final: Path) -> int:
    assert root != final
    (root / TOOL.path).chmod(0o755)
    return 1


async def fetch(archive: Archive, folder: Path, wanted: DebianProgram = TOOL, **options: Any) -> Path:
    tools = archive.tools(relocate=made_executable)
    return await fetch_program(folder, wanted, mirror="http://mirror/debian", tools=tools, **options)


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


async def test_a_whole_fetch(archive: Archive, folder: Path) -> None:
    steps: list[InstallStep] = []
    program = await fetch(archive, folder, progress=steps.append)
    (tree,) = find_trees(folder, "tool-2")
    assert program == tree / "usr/bin/tool"
    assert left_in(folder) == [tree.name]
    files = sorted(str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file())
    assert files == [
        "ckwatch-program.json",
        "usr/bin/tool",
        "usr/lib/x86_64-linux-gnu/libneeded.so.1",
        "usr/share/tool/data",
    ]
    manifest = json.loads((tree / "ckwatch-program.json").read_text())
    assert [package["name"] for package in manifest["packages"]] == [*FILES]
    titles = [step.title for step in steps]
    assert titles.index("Downloading 2 packages") < titles.index("Unpacking") < titles.index("Relocating")
    assert titles[-1] == "Trying tool"


async def test_a_folder_of_named_packages(archive: Archive, folder: Path) -> None:
    """Nothing of what they depend on, and nothing that is run."""
    steps: list[InstallStep] = []
    wanted = DebianProgram("tool-2", "usr/share/tool", r"usr/share/tool/.+", 0, ("tool-2",))
    found = await fetch(archive, folder, wanted, progress=steps.append)
    assert [path.name for path in found.iterdir()] == ["data"]
    assert not {"Relocating", "Trying tool"} & {step.title for step in steps}
    assert "Downloading 1 packages" in {step.title for step in steps}


async def test_what_is_there_is_not_fetched_again_unless_forced(archive: Archive, folder: Path) -> None:
    first = await fetch(archive, folder)
    archive.update_error = ToolchainError("no network")
    assert await fetch(archive, folder) == first
    with pytest.raises(ToolchainError, match="no network"):
        await fetch(archive, folder, force=True)
    assert first.exists()
    archive.update_error = None
    assert await fetch(archive, folder, force=True) == first
    archive.add("tool-2", {"usr/bin/tool": "#!/bin/sh\n# newer\n"})
    second = await fetch(archive, folder, force=True)
    assert second != first
    assert [tree / TOOL.path for tree in find_trees(folder, "tool-*")] == [second]
    assert left_in(folder) == [second.parents[2].name]


async def test_two_at_a_time_fetch_it_once(archive: Archive, folder: Path) -> None:
    found: list[Path] = []

    async def one() -> None:
        found.append(await fetch(archive, folder))

    async with anyio.create_task_group() as group:
        group.start_soon(one)
        group.start_soon(one)
    assert sorted(archive.downloads) == sorted(FILES)
    assert found[0] == found[1]


async def test_a_cancelled_download_goes_on_where_it_was(archive: Archive, folder: Path) -> None:
    async def interrupt(package: AptPackage) -> None:
        if package.name == "libneeded":
            scope.cancel()
            await anyio.sleep_forever()

    archive.before_download = interrupt
    with anyio.CancelScope() as scope:
        await fetch(archive, folder)
    assert scope.cancelled_caught
    assert (find_trees(folder, "tool-2"), left_in(folder)) == ((), [".downloads"])
    archive.before_download = None
    await fetch(archive, folder)
    assert archive.downloads == ["tool-2", "libneeded"]


async def test_cancelled_at_the_end_leaves_no_tree(archive: Archive, folder: Path) -> None:
    def interrupt(step: InstallStep) -> None:
        if step.title == "Trying tool":
            assert [*folder.glob(f"tool-2-*/{TOOL.path}")]
            scope.cancel()

    with anyio.CancelScope() as scope:
        await fetch(archive, folder, progress=interrupt)
    assert scope.cancelled_caught
    assert left_in(folder) == [".downloads"]


async def test_a_killed_fetch_leaves_nothing_that_is_trusted(archive: Archive, folder: Path) -> None:
    for name in (".work-x/usr/bin/tool", "tool-2-01234567/usr/bin/tool"):
        make_program(folder / name)
    assert find_trees(folder, "tool-2") == ()
    program = await fetch(archive, folder)
    assert left_in(folder) == [program.parents[2].name]


async def test_a_tree_that_was_moved_is_used_and_a_damaged_one_is_not(archive: Archive, folder: Path) -> None:
    tree = (await fetch(archive, folder)).parents[2]
    moved = tree.rename(folder / "tool-2-01234567")
    assert find_trees(folder, "tool-2") == (moved,)
    for text in ("", "[]", "{}", '{"layout": 1}'):
        (moved / "ckwatch-program.json").write_text(text)
        assert find_trees(folder, "tool-2") == ()


async def test_a_program_that_does_not_run_is_thrown_away(archive: Archive, folder: Path) -> None:
    archive.add("tool-2", {"usr/bin/tool": "#!/bin/sh\necho 'no such CPU' >&2; exit 1\n"})
    with pytest.raises(ToolchainError, match="the new tool does not run on this machine: no such CPU"):
        await fetch(archive, folder)
    assert left_in(folder) == [".downloads"]


async def test_the_first_suite_that_has_it(archive: Archive, folder: Path) -> None:
    archive.suite = "oldstable"
    archive.unreadable = {"experimental"}
    steps: list[InstallStep] = []
    assert (await fetch(archive, folder, progress=steps.append)).exists()
    begun = "Reading the package index of Debian "
    suites = [step.title.removeprefix(begun) for step in steps if step.title.startswith(begun)]
    assert suites == ["sid", "experimental", "stable", "oldstable"]


async def test_no_suite_has_it(archive: Archive, folder: Path) -> None:
    archive.suite = "none"
    with pytest.raises(ToolchainError) as caught:
        await fetch(archive, folder)
    assert caught.value.message == (
        "http://mirror/debian has no package tool-2\n"
        "  sid: not there\n  experimental: not there\n  stable: not there\n  oldstable: not there"
    )
    assert caught.value.hint is None
    archive.unreadable = {"stable"}
    with pytest.raises(ToolchainError, match="stable: the mirror does not carry it") as caught:
        await fetch(archive, folder)
    assert "CKWATCH_DEBIAN_MIRROR" in (caught.value.hint or "")


async def test_too_little_space_is_said_before_anything_is_fetched(archive: Archive, folder: Path) -> None:
    with pytest.raises(ToolchainError, match=r"1000000000\.0 GB are needed"):
        await fetch(archive, folder, DebianProgram(TOOL.package, TOOL.path, TOOL.kept, 10**18))
    assert archive.downloads == []
