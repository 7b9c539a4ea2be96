"""Precompiled headers are used while they hold, and few are kept."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ckwatch.compile.plan import Side
from ckwatch.compile.precompiled import HEADER, META, Precompiled, PrecompiledHeaders, Wanted
from ckwatch.store import ArtifactStore, Roots
from fake_hip import PLAN

TEXT = "#include <a.h>\n"


@pytest.fixture
def include(tmp_path: Path) -> Path:
    folder = tmp_path / "include"
    folder.mkdir()
    (folder / "a.h").write_text("int a;\n")
    (folder / "b.h").write_text("int b;\n")
    return folder


@pytest.fixture
def headers(store: ArtifactStore, include: Path) -> PrecompiledHeaders:
    return make_headers(store, include)


def make_headers(store: ArtifactStore, include: Path, identity: str = "compiler 1") -> PrecompiledHeaders:
    return PrecompiledHeaders(store, Roots({"include": include}), identity)


@pytest.fixture
def wanted(headers: PrecompiledHeaders) -> Wanted:
    return headers.wanted(Side.DEVICE, TEXT, PLAN)


def made(headers: PrecompiledHeaders, wanted: Wanted, include: Path, *, size: int = 10) -> Precompiled | None:
    """Put one there, of both headers; a file `before.h` must not appear."""
    begun_ns = time.time_ns()
    folder = headers.prepare(wanted)
    file = folder / "new"
    file.write_bytes(bytes(size))
    opened = [str(include / "a.h"), str(include / "b.h"), str(folder / "prefix.hip")]
    assert headers.publish(wanted, file, opened, [str(include / "before.h")], begun_ns)
    return headers.find(wanted)


def age(headers: PrecompiledHeaders, wanted: Wanted, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(headers.folder / wanted.key / META, (then, then))


def left(headers: PrecompiledHeaders) -> set[str]:
    return {path.name for path in headers.folder.iterdir() if path.is_dir()}


def test_made_and_found(headers: PrecompiledHeaders, wanted: Wanted, include: Path, store: ArtifactStore) -> None:
    assert headers.find(wanted) is None
    found = made(headers, wanted, include)
    assert found is not None
    assert sorted(found.headers) == [str(include / "a.h"), str(include / "b.h")]
    assert found.file.read_bytes() == bytes(10)
    assert found.source.read_text() == TEXT
    assert found.use == ("-fno-cxx-modules", "-include-pch", str(found.file))
    again = make_headers(store, include)
    assert again.find(again.wanted(Side.DEVICE, TEXT, PLAN)) == found


@pytest.mark.parametrize(
    "happen",
    [
        lambda include, _: (include / "b.h").write_text("int c;\n"),
        lambda include, _: (include / "a.h").unlink(),
        lambda include, _: (include / "before.h").touch(),
        lambda _, found: found.file.unlink(),
        lambda _, found: (found.file.parent / META).write_text('{"present": '),
        lambda _, found: (found.file.parent / META).write_text('{"present": {}}'),
        lambda _, found: (found.file.parent / META).write_text("[]"),
        lambda _, found: (found.file.parent / META).unlink(),
    ],
    ids=["changed", "gone", "shadowed", "no file", "cut short", "half", "no set", "none"],
)
def test_used_only_while_it_holds(
    headers: PrecompiledHeaders, wanted: Wanted, include: Path, happen: Callable[[Path, Precompiled], object]
) -> None:
    found = made(headers, wanted, include)
    assert found is not None
    happen(include, found)
    assert headers.find(wanted) is None
    (include / "before.h").unlink(missing_ok=True)
    (include / "a.h").write_text("int a;\n")
    assert made(headers, wanted, include) is not None


def test_touched_or_rewritten_it_still_holds(headers: PrecompiledHeaders, wanted: Wanted, include: Path) -> None:
    """For contents count, not times; clang itself is the judge of those."""
    found = made(headers, wanted, include)
    (include / "b.h").write_text("int b;\n")
    os.utime(include / "a.h", (1, 1))
    assert headers.find(wanted) == found


def test_a_stale_one_is_removed(headers: PrecompiledHeaders, wanted: Wanted, include: Path) -> None:
    made(headers, wanted, include)
    (include / "b.h").write_text("int c;\n")
    headers.find(wanted)
    assert left(headers) == set()


def test_headers_that_changed_since_it_was_begun(headers: PrecompiledHeaders, wanted: Wanted, include: Path) -> None:
    file = headers.prepare(wanted) / "new"
    file.touch()
    assert not headers.publish(wanted, file, [str(include / "a.h")], [], begun_ns=1)
    assert headers.find(wanted) is None


def test_half_made_is_not_used(headers: PrecompiledHeaders, wanted: Wanted, include: Path) -> None:
    """Whoever made it was killed, at any of these moments."""
    folder = headers.prepare(wanted)
    assert headers.find(wanted) is None
    (folder / f"{HEADER}.123").write_bytes(b"half")
    assert headers.find(wanted) is None
    (folder / HEADER).write_bytes(b"whole, but nobody knows of what")
    assert headers.find(wanted) is None
    assert made(headers, wanted, include) is not None


def test_a_damaged_one_is_not_used(headers: PrecompiledHeaders, wanted: Wanted, include: Path) -> None:
    found = made(headers, wanted, include)
    assert found is not None
    content = bytearray(found.file.read_bytes())
    content[5] ^= 1
    found.file.write_bytes(content)
    assert headers.find(wanted) is None
    assert not left(headers)


def test_an_equal_text_keeps_its_time(headers: PrecompiledHeaders, wanted: Wanted) -> None:
    source = headers.prepare(wanted) / "prefix.hip"
    os.utime(source, (1, 1))
    assert (headers.prepare(wanted) / "prefix.hip").stat().st_mtime == 1
    source.write_text("damaged")
    assert (headers.prepare(wanted) / "prefix.hip").read_text() == TEXT


@pytest.mark.parametrize(
    ("side", "text", "identity", "same"),
    [
        (Side.DEVICE, TEXT, "compiler 1", True),
        (Side.HOST, TEXT, "compiler 1", False),
        (Side.DEVICE, f"{TEXT}\n", "compiler 1", False),
        (Side.DEVICE, TEXT, "compiler 2", False),
    ],
)
def test_names(
    store: ArtifactStore, include: Path, wanted: Wanted, side: Side, text: str, identity: str, same: bool
) -> None:
    other = make_headers(store, include, identity).wanted(side, text, PLAN)
    assert (other.key == wanted.key) is same


def several(headers: PrecompiledHeaders, include: Path, ages: list[float]) -> list[str]:
    """As many, of 1000 bytes and a little, last used so many seconds ago."""
    keys = []
    for number, seconds in enumerate(ages):
        wanted = headers.wanted(Side.HOST, f"{TEXT}// {number}\n", PLAN)
        made(headers, wanted, include, size=1000)
        age(headers, wanted, seconds)
        keys.append(wanted.key)
    return keys


@pytest.mark.parametrize(
    ("ages", "limits", "kept"),
    [
        ([5000, 4000, 3000], {}, [0, 1, 2]),
        ([5000, 4000, 3000], {"count_limit": 2}, [1, 2]),
        ([3000, 5000, 4000], {"count_limit": 1}, [0]),
        ([5000, 4000, 3000], {"count_limit": 0}, []),
        ([5000, 4000, 3000], {"size_limit_bytes": 3000}, [1, 2]),
        ([5000, 4000, 3000], {"size_limit_bytes": 2000}, [2]),
        ([5000, 4000, 3000], {"size_limit_bytes": 0}, []),
        ([5000, 40, 3], {"size_limit_bytes": 0, "count_limit": 0}, [1, 2]),
    ],
)
def test_limits(
    headers: PrecompiledHeaders, include: Path, ages: list[float], limits: dict[str, int], kept: list[int]
) -> None:
    keys = several(headers, include, ages)
    assert headers.tidy(**limits) == len(ages) - len(kept)
    assert left(headers) == {keys[number] for number in kept}


def test_one_that_is_found_is_used(headers: PrecompiledHeaders, wanted: Wanted, include: Path) -> None:
    made(headers, wanted, include)
    age(headers, wanted, 5000)
    headers.find(wanted)
    assert headers.tidy(count_limit=0) == 0


@pytest.mark.parametrize(("seconds", "removed"), [(0, 0), (5000, 1)])
def test_what_was_left_half_made_goes_when_nobody_makes_it(
    headers: PrecompiledHeaders, wanted: Wanted, seconds: float, removed: int
) -> None:
    folder = headers.prepare(wanted)
    (folder / f"{HEADER}.123").write_bytes(b"half")
    then = time.time() - seconds
    os.utime(folder, (then, then))
    assert headers.tidy() == removed


def test_nothing_to_tidy(headers: PrecompiledHeaders) -> None:
    assert headers.tidy() == 0


def test_a_refusal_holds_for_this_compiler(store: ArtifactStore, include: Path, wanted: Wanted) -> None:
    first = make_headers(store, include)
    assert (first.refusal(), first.worth_trying(wanted)) == (None, True)
    first.refuse("no such argument")
    for headers, message in (
        (first, "no such argument"),
        (make_headers(store, include), "no such argument"),
        (make_headers(store, include, "compiler 2"), None),
    ):
        assert headers.refusal() == message
        assert headers.worth_trying(wanted) is (message is None)
    assert first.tidy() == 0
    assert first.refusal() == "no such argument"


@pytest.mark.parametrize("told", ["", "[1", "{}", "[]", json.dumps({"message": "no"})])
def test_a_damaged_refusal_is_none(headers: PrecompiledHeaders, told: str) -> None:
    headers.folder.mkdir(parents=True)
    (headers.folder / "refused.json").write_text(told)
    assert headers.refusal() is None


def test_what_failed_is_not_tried_again_at_once(headers: PrecompiledHeaders, wanted: Wanted) -> None:
    headers.failed(wanted)
    other = headers.wanted(Side.HOST, TEXT, PLAN)
    assert (headers.worth_trying(wanted), headers.worth_trying(other)) == (False, True)
