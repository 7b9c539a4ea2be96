"""Headers of ROCm's libraries: names, what they need, and an install on small packages, with apt replaced."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from pathlib import Path
from typing import Any

import anyio
import pytest

from ckwatch.compile.store.content_hashes import ContentHashes
from ckwatch.compile.toolchain import installations
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.doctor import CheckState, examine
from ckwatch.compile.toolchain.library_install import install_libraries
from ckwatch.compile.toolchain.model import FixedToolchainChoice
from ckwatch.compile.toolchain.rocm_libraries import (
    chosen_libraries,
    include_folder,
    installed_libraries,
    libraries_folder,
)
from ckwatch.farm.messages import toolchain_identity
from ckwatch.model.errors import ToolchainError
from ckwatch.model.rocm_libraries import LIBRARIES
from compile.toolchain.test_install import Archive
from helpers.rocm_trees import make_installed, make_rocm

pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg on this system")

MMA = '#include "internal/mma.hpp"\n'
FILES: dict[str, dict[str, str | None]] = {
    "librocprim-dev": {
        "usr/include/rocprim/rocprim.hpp": "prim",
        "usr/include/rocprim/iterator/texture_cache_iterator.hpp": "memset(&a, 0, 1);\n",
        "usr/share/doc/librocprim-dev/copyright": "MIT",
        "usr/lib/cmake/rocprim/rocprim-config.cmake": "",
    },
    "libhipcub-dev": {"usr/include/hipcub/hipcub.hpp": "cub"},
    "librocwmma-dev": {"usr/include/rocwmma/rocwmma.hpp": MMA},
}


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        (["rocprim"], "rocprim"),
        (["hipCUB"], "rocprim hipcub"),
        (["hipblaslt, rocprim", "hiprand"], "rocprim hipblas hipblaslt rocrand hiprand"),
        (["all"], " ".join(LIBRARIES)),
    ],
)
def test_libraries_come_with_those_that_they_need(words: list[str], chosen: str) -> None:
    assert [library.name for library in chosen_libraries(words)] == chosen.split()


@pytest.mark.parametrize(
    ("word", "message", "hint"),
    [
        (
            "rocpim",
            "no library of ROCm that can be fetched is called so",
            "did you mean `rocprim`? There are: rocprim, ",
        ),
        ("cub", "called so", "did you mean `hipcub`?"),
        ("libcublas-dev", "called so", "did you mean `hipblas`?"),
        ("xyz", "called so", "There are: "),
        ("hiptensor", "Debian has no headers of it", "-I in `[compile] flags`"),
        ("ck_tile", "`ckwatch toolchain install ck`", "There are: "),
        (" ,", "--with names no library", "There are: "),
    ],
)
def test_names_that_cannot_be_fetched(word: str, message: str, hint: str) -> None:
    with pytest.raises(ToolchainError) as caught:
        chosen_libraries([f"rocprim,{word}" if word.strip(" ,") else word])
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cäche with space"))
    return Archive(tmp_path / "debs", FILES)


@pytest.fixture
def tree(archive: Archive) -> Path:  # sets the cache folder
    """A private toolchain that is in use."""
    folder = installations.toolchains_folder(os.environ)
    return make_installed(folder).root


async def add(archive: Archive, *names: str, **options: Any) -> tuple[str, ...]:
    """What is fetched."""
    made = await install_libraries(
        chosen_libraries(names), mirror="http://mirror/debian", tools=archive.tools(), **options
    )
    return made.fetched


async def test_headers_are_added(archive: Archive, tree: Path) -> None:
    before = discover(FixedToolchainChoice(rocm=tree / "usr"), os.environ)
    assert await add(archive, "rocprim") == ("rocprim",)
    include = include_folder(tree)
    assert (include / "rocprim/rocprim.hpp").read_text() == "prim"
    assert (include / "rocprim/iterator/texture_cache_iterator.hpp").read_text().startswith("#include <cstring>\n")
    assert (libraries_folder(tree) / "doc/librocprim-dev/copyright").read_text() == "MIT"
    assert sorted(path.name for path in libraries_folder(tree).iterdir()) == [
        "ckwatch-libraries.json",
        "doc",
        "include",
    ]
    assert await add(archive, "hipcub") == ("hipcub",)
    assert installed_libraries(tree) == {"rocprim": "7.2.4", "hipcub": "7.2.4"}
    assert archive.downloads == ["librocprim-dev", "libhipcub-dev"]
    after = discover(FixedToolchainChoice(rocm=tree / "usr"), os.environ)
    assert after.include_folders[-1] == after.roots["libraries"] == include
    assert (after.identity, after.include_folders) == (before.identity, before.include_folders)
    assert sorted(path.name for path in tree.parent.iterdir()) == [".downloads", ".lock", tree.name]


async def test_what_is_there_is_not_fetched_again_unless_forced(archive: Archive, tree: Path) -> None:
    await add(archive, "hipcub")
    archive.update_error = ToolchainError("no network")
    assert await add(archive, "rocprim", "hipcub") == ()
    with pytest.raises(ToolchainError, match="no network"):
        await add(archive, "rocprim", force=True)
    archive.update_error = None
    assert await add(archive, "rocprim", force=True) == ("rocprim",)
    assert list(installed_libraries(tree)) == ["rocprim", "hipcub"]


async def test_all_are_of_one_release(archive: Archive, tree: Path) -> None:
    await add(archive, "rocprim")
    archive.add("librocprim-dev", {"usr/include/rocprim/newer.hpp": ""})
    assert await add(archive, "hipcub") == ("rocprim", "hipcub")
    assert [path.name for path in (include_folder(tree) / "rocprim").iterdir()] == ["newer.hpp"]


async def test_two_at_a_time_fetch_it_once(archive: Archive, tree: Path) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(add, archive, "hipcub")
        group.start_soon(add, archive, "hipcub")
    assert sorted(archive.downloads) == ["libhipcub-dev", "librocprim-dev"]
    assert list(installed_libraries(tree)) == ["rocprim", "hipcub"]


async def test_a_killed_run_leaves_nothing_that_counts(archive: Archive, tree: Path) -> None:
    (tree.parent / ".work-killed").mkdir()
    include_folder(tree).mkdir(parents=True)
    (include_folder(tree) / "rocprim").mkdir()
    for text in ("", "[]", '{"layout": 1}', '{"layout": 1, "packages": [1]}'):
        (libraries_folder(tree) / "ckwatch-libraries.json").write_text(text)
        assert installed_libraries(tree) == {}
    await add(archive, "rocprim")
    assert (include_folder(tree) / "rocprim/rocprim.hpp").exists()
    assert not (tree.parent / ".work-killed").exists()


async def test_a_mirror_that_has_not_the_package(archive: Archive, tree: Path) -> None:
    with pytest.raises(
        ToolchainError, match="http://mirror/debian has no package librocrand-dev, where the headers of"
    ):
        await add(archive, "hiprand", "rocprim")
    assert installed_libraries(tree) == {}
    assert archive.downloads == []


async def test_without_a_private_toolchain(archive: Archive) -> None:
    with pytest.raises(ToolchainError, match="none is installed") as caught:
        await add(archive, "rocprim")
    assert caught.value.hint == "Run `ckwatch toolchain install`."


def make_sources(folder: Path, files: dict[str, str]) -> Path:
    path = folder / "rocwmma_7.2.4.orig.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"rocWMMA-7.2.4/{name}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


async def test_headers_that_a_package_lacks_come_from_its_sources(archive: Archive, tree: Path, tmp_path: Path) -> None:
    internal = "library/include/rocwmma/internal"
    archive.sources["rocwmma"] = make_sources(
        tmp_path,
        {
            f"{internal}/mma.hpp": "mma",
            "library/include/rocwmma/rocwmma.hpp": "other",
            "test/rocwmma.hpp": "",
            f"{internal}/x.txt": "",
        },
    )
    assert await add(archive, "rocwmma") == ("rocwmma",)
    folder = include_folder(tree) / "rocwmma"
    files = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert files == {"rocwmma.hpp": MMA, "internal/mma.hpp": "mma"}


@pytest.mark.parametrize("sources", [{}, {"README.md": ""}])
async def test_a_library_that_stays_incomplete_is_left_out(
    archive: Archive, tree: Path, tmp_path: Path, sources: dict[str, str]
) -> None:
    if sources:
        archive.sources["rocwmma"] = make_sources(tmp_path, sources)
    with pytest.raises(ToolchainError) as caught:
        await add(archive, "rocwmma", "rocprim")
    assert caught.value.message.startswith(
        "rocwmma is left out: Debian's package librocwmma-dev lacks rocwmma/internal/mma.hpp"
    )
    assert "-I in `[compile] flags`" in (caught.value.hint or "")
    assert list(installed_libraries(tree)) == ["rocprim"]
    assert [path.name for path in include_folder(tree).iterdir()] == ["rocprim"]


async def test_what_doctor_says(archive: Archive, tree: Path, tmp_path: Path) -> None:
    async def said(rocm: Path) -> tuple[CheckState, str, str | None]:
        report = await examine(FixedToolchainChoice(rocm=rocm), os.environ)
        (check,) = (check for check in report.checks if check.name == "libraries")
        return check.state, check.detail, check.fix

    listed = ",".join(LIBRARIES)
    fix = f"ckwatch toolchain install --with all, or any of {listed}"
    assert await said(tree / "usr") == (CheckState.NOTE, "no headers of rocPRIM, hipCUB, … are installed", fix)
    await add(archive, "hipcub")
    fix = fix.replace("rocprim,hipcub,", "")
    assert await said(tree / "usr") == (CheckState.OK, f"rocprim, hipcub 7.2.4: {include_folder(tree)}", fix)
    other = make_rocm(tmp_path / "rocm", "7.0.0")
    state, detail, _ = await said(other)
    assert (state, detail) == (CheckState.NOTE, f"no headers of rocPRIM, hipCUB, … in ROCm 7.0.0 at {other}")
    (other / "include/rocprim").mkdir()
    (other / "include/rocprim/rocprim.hpp").touch()
    assert await said(other) == (CheckState.OK, f"rocprim: {other}/include", None)


async def test_a_worker_of_the_farm_needs_the_same(archive: Archive, tree: Path, tmp_path: Path) -> None:
    def identity() -> str:
        found = discover(FixedToolchainChoice(rocm=tree / "usr"), os.environ)
        return toolchain_identity(found, ContentHashes(tmp_path / "hashes.sqlite"))

    before = identity()
    await add(archive, "rocprim")
    assert identity() != before
