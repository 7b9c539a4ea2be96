"""Parts of a source that can be precompiled."""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from ckwatch.compile.driver_plan import PassSide
from ckwatch.compile.precompiled_headers import (
    FAMILIES,
    HEADER_NAME,
    META_NAME,
    REPRESENTATIVES,
    HeaderSpec,
    HeaderWarmup,
    PrecompiledHeader,
    PrecompiledHeaderStore,
    can_warm_up,
    family_of,
    include_prefix,
    shared_plan,
    warm_text,
)
from ckwatch.compile.request import CompileRequest
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.content_hashes import steady_ns
from ckwatch.compile.store.entries import StoreError
from ckwatch.compile.store.header_sets import PathRoots
from ckwatch.system.async_processes import ExitReason
from ckwatch.system.file_locks import try_lock, unlock
from fakes.fake_hip import HEADER_OF, PLAN, SOURCE, SYMBOL, WARM, FakeHip, Run, Step, fake_hip, request
from fakes.patience import PATIENCE_S
from helpers.each_row import each_row

A, B = "#include <a>\n", '#include "b.h"\n'
PUSH, POP = "#pragma clang diagnostic push\n", "#pragma clang diagnostic pop\n"
IGNORED = '#pragma clang diagnostic ignored "-Wall"\n'
PACKED = "#pragma pack(push, 1)\n"
GUARD = "#ifndef C\n#define C 1\n"


@each_row(
    ("source", "prefix"),
    [
        ("", ""),
        ("int x;\n", ""),
        ("// only a comment\n", ""),
        ("#define A 1\nint x;\n", ""),
        (A, A),
        ("#include <a>", "#include <a>"),
        (f"{A}int x;\n{B}", A),
        (f"{A}\n{B}\nint x;\n", f"{A}\n{B}"),
        (f"// one\n/* two */\n{A}// three\nint x;\n", f"// one\n/* two */\n{A}"),
        (f"/* a\nint b;\n*/\n{A}int x;\n", f"/* a\nint b;\n*/\n{A}"),
        (f"/* a */ {A}int x;\n", f"/* a */ {A}"),
        (f"/* a */ int x;\n{A}", ""),
        (f"/* a\n*/ int x;\n{A}", ""),
        (f"/*\n{A}*/\nint x;\n", ""),
        (f"// {A}int x;\n", ""),
        (f"#define M 1\n{A}#define N 2\nint x;\n", f"#define M 1\n{A}"),
        (f"#pragma once\n{A}#pragma unroll\nint x;\n", f"#pragma once\n{A}"),
        ("  #  include <a>\nint x;\n", "  #  include <a>\n"),
        (f"#if X\n{A}#endif\nint x;\n", f"#if X\n{A}#endif\n"),
        (f"#ifdef X\n{A}#else\n{B}#endif\nint x;\n", f"#ifdef X\n{A}#else\n{B}#endif\n"),
        (f"#ifdef X\n#if Y\n{A}#endif\n#endif\nint x;\n", f"#ifdef X\n#if Y\n{A}#endif\n#endif\n"),
        (f"{A}#ifdef X\n{B}int x;\n#endif\n", A),
        (f"#ifdef X\nint x;\n#endif\n{A}", ""),
        (f"{A}#ifdef X\n#define Y\n#endif\n{B}int x;\n", f"{A}#ifdef X\n#define Y\n#endif\n{B}"),
        (f"#define M \\\n  int x;\n{A}int y;\n", f"#define M \\\n  int x;\n{A}"),
        (f"// a \\\nint x;\n{A}int y;\n", f"// a \\\nint x;\n{A}"),
        (f"{A.strip()}\r\n{B.strip()}\r\nint x;\r\n", f"{A.strip()}\r\n{B.strip()}\r\n"),
        ('extern "C" {\n#include <a>\n}\n', ""),
        (f"{PUSH}{IGNORED}{A}{POP}int x;\n", f"{PUSH}{IGNORED}{A}{POP}"),
        (f"{A}{PUSH}{IGNORED}{B}int x;\n{POP}", A),
        (f"{IGNORED}{A}int x;\n", f"{IGNORED}{A}"),
        (f"{PACKED}{A}#pragma pack(pop)\n{B}", f"{PACKED}{A}#pragma pack(pop)\n{B}"),
        (f"{A}{PACKED}{B}", A),
        (f"{A}#pragma pack(pop)\n{B}", A),
        (f"{A}#pragma clang force_cuda_host_device begin\n{B}int x;\n", A),
        (
            f'#pragma push_macro("X")\n{A}#pragma pop_macro("X")\n',
            f'#pragma push_macro("X")\n{A}#pragma pop_macro("X")\n',
        ),
        (f"{GUARD}#endif\n{A}", f"{GUARD}#endif\n{A}"),
        (f"#if !defined(C)\n#define C\n#endif\n{A}", f"#if !defined(C)\n#define C\n#endif\n{A}"),
        (f"{GUARD}#endif\n#if C == 1\n{A}#else\n{B}#endif\n", f"{GUARD}#endif\n#if C == 1\n{A}#else\n{B}#endif\n"),
        (f"{B}{GUARD}#else\n#define D\n#endif\n{A}", B),
        (f"{A}#if C\n{B}#endif\n#define C 1\n{B}", A),
        (f"{A}#if X || \\\n  C\n{B}#endif\n#undef C\n{B}", A),
        (f"{A}#if X\n#define Y 1\n#elif C\n#define C\n#endif\n{B}", A),
        (
            f"#if X\n#define Y 1\n#else\n#define Y 2\n#endif\n{A}",
            f"#if X\n#define Y 1\n#else\n#define Y 2\n#endif\n{A}",
        ),
        (f"{A}template <class T>\n{B}", A),
    ],
)
def test_prefix(source: str, prefix: str) -> None:
    assert include_prefix(source) == prefix


@pytest.mark.parametrize(
    ("source", "able", "family"),
    [
        ("int x;\n", False, ""),
        ("#ifdef CKWATCH_WARM_UP\n#endif\n", True, ""),
        ("// CKWATCH_WARM_UP: v3 Intrawave\n", True, "v3 Intrawave"),
        ("int x;\n  //CKWATCH_WARM_UP:\tv1  \nint y;\n", True, "v1"),
        ("// CKWATCH_WARM_UP:\nint y;\n", True, ""),
        ("// CKWATCH_WARM_UP: a\n// CKWATCH_WARM_UP: b\n", True, "a"),
    ],
)
def test_taking_part(source: str, able: bool, family: str) -> None:
    assert (can_warm_up(source), family_of(source)) == (able, family)


def test_text_of_a_warm_header() -> None:
    symbol = "k_0123456789ab"
    text = warm_text(A, f"{A}int {symbol}();\nnamespace {symbol}_unit {{}}\n", symbol)
    lines = text.splitlines()
    assert lines[:2] == ["#include <a>", "#define CKWATCH_WARM_UP 1"]
    assert lines[2:5] == ["#include <a>", f"int {symbol}_warm_up();", f"namespace {symbol}_warm_up_unit {{}}"]
    assert lines[-1] == "#undef CKWATCH_WARM_UP"
    assert text.endswith("\n")


@pytest.mark.parametrize(
    ("prefix", "shared"),
    [
        ('#include "ck/ck.hpp"\n#include <hip/hip_runtime.h>\n', True),
        ('#include "own/tile.h"\n', False),
        ('#define NAME "ck/ck.hpp"\n#include NAME\n', False),
    ],
)
def test_workspaces_share_what_none_of_their_headers_takes_part_in(prefix: str, shared: bool, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    mine = replace(request(source=prefix), include_folders=(tmp_path,))
    plan = replace(PLAN, host=("clang", "-iquote", str(tmp_path), *PLAN.host[1:]))
    assert (str(tmp_path) not in shared_plan(plan, prefix, mine).host) == shared


TEXT = "#include <a.h>\n"


@pytest.fixture
def include(tmp_path: Path) -> Path:
    folder = tmp_path / "include"
    (folder / "first").mkdir(parents=True)
    (folder / "a.h").write_text("int a;\n")
    (folder / "b.h").write_text("int b;\n")
    return folder


@pytest.fixture
def headers(store: ArtifactStore, include: Path) -> PrecompiledHeaderStore:
    return make_headers(store, include)


def make_headers(store: ArtifactStore, include: Path, identity: str = "compiler 1") -> PrecompiledHeaderStore:
    return PrecompiledHeaderStore(store, PathRoots({"include": include}), identity)


@pytest.fixture
def wanted(headers: PrecompiledHeaderStore) -> HeaderSpec:
    return headers.wanted(PassSide.DEVICE, TEXT, PLAN)


def made(
    headers: PrecompiledHeaderStore, wanted: HeaderSpec, include: Path, *, size: int = 10
) -> PrecompiledHeader | None:
    """Put one there, of both headers; none may appear in `first`."""
    begun_ns = steady_ns()
    folder = headers.prepare(wanted)
    file = folder / "new"
    file.write_bytes(bytes(size))
    opened = [str(include / "a.h"), str(include / "b.h"), str(folder / "prefix.hip")]
    assert headers.publish(wanted, file, opened, (include / "first", include), begun_ns)
    return headers.find(wanted)


def age(headers: PrecompiledHeaderStore, wanted: HeaderSpec, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(headers.folder / wanted.key / META_NAME, (then, then))


def left(headers: PrecompiledHeaderStore) -> set[str]:
    return {path.name for path in headers.folder.iterdir() if path.is_dir()}


def test_made_and_found(
    headers: PrecompiledHeaderStore, wanted: HeaderSpec, include: Path, store: ArtifactStore
) -> None:
    assert headers.find(wanted) is None
    found = made(headers, wanted, include)
    assert found is not None
    assert sorted(found.headers) == [str(include / "a.h"), str(include / "b.h")]
    assert found.file.read_bytes() == bytes(10)
    assert found.source.read_text() == TEXT
    assert found.use == ("-fno-cxx-modules", "-include-pch", str(found.file))
    again = make_headers(store, include)
    assert again.find(again.wanted(PassSide.DEVICE, TEXT, PLAN)) == found


@pytest.mark.parametrize(
    "happen",
    [
        lambda include, _: (include / "b.h").write_text("int c;\n"),
        lambda include, _: (include / "a.h").unlink(),
        lambda include, _: (include / "first/a.h").touch(),
        lambda _, found: found.file.unlink(),
        lambda _, found: (found.file.parent / META_NAME).write_text('{"present": '),
        lambda _, found: (found.file.parent / META_NAME).write_text('{"present": {}}'),
        lambda _, found: (found.file.parent / META_NAME).write_text("[]"),
        lambda _, found: (found.file.parent / META_NAME).unlink(),
    ],
    ids=["changed", "gone", "shadowed", "no file", "cut short", "half", "no set", "none"],
)
def test_used_only_while_it_holds(
    headers: PrecompiledHeaderStore,
    wanted: HeaderSpec,
    include: Path,
    happen: Callable[[Path, PrecompiledHeader], object],
) -> None:
    found = made(headers, wanted, include)
    assert found is not None
    happen(include, found)
    assert headers.find(wanted) is None
    (include / "first/a.h").unlink(missing_ok=True)
    (include / "a.h").write_text("int a;\n")
    assert made(headers, wanted, include) is not None


def test_touched_or_rewritten_it_still_holds(
    headers: PrecompiledHeaderStore, wanted: HeaderSpec, include: Path
) -> None:
    """For contents count, not times; clang itself is the judge of those."""
    found = made(headers, wanted, include)
    (include / "b.h").write_text("int b;\n")
    os.utime(include / "a.h", (1, 1))
    assert headers.find(wanted) == found


def test_a_stale_one_is_removed(headers: PrecompiledHeaderStore, wanted: HeaderSpec, include: Path) -> None:
    made(headers, wanted, include)
    (include / "b.h").write_text("int c;\n")
    headers.find(wanted)
    assert left(headers) == set()


def test_headers_that_changed_since_it_was_begun(
    headers: PrecompiledHeaderStore, wanted: HeaderSpec, include: Path
) -> None:
    file = headers.prepare(wanted) / "new"
    file.touch()
    assert not headers.publish(wanted, file, [str(include / "a.h")], (), begun_ns=1)
    assert headers.find(wanted) is None


def test_half_made_is_not_used(headers: PrecompiledHeaderStore, wanted: HeaderSpec, include: Path) -> None:
    """Whoever made it was killed, at any of these moments."""
    folder = headers.prepare(wanted)
    assert headers.find(wanted) is None
    (folder / f"{HEADER_NAME}.123").write_bytes(b"half")
    assert headers.find(wanted) is None
    (folder / HEADER_NAME).write_bytes(b"whole, but nobody knows of what")
    assert headers.find(wanted) is None
    assert made(headers, wanted, include) is not None


def test_a_damaged_one_is_not_used(headers: PrecompiledHeaderStore, wanted: HeaderSpec, include: Path) -> None:
    found = made(headers, wanted, include)
    assert found is not None
    content = bytearray(found.file.read_bytes())
    content[5] ^= 1
    found.file.write_bytes(content)
    assert headers.find(wanted) is None
    assert not left(headers)


def test_an_equal_text_keeps_its_time(headers: PrecompiledHeaderStore, wanted: HeaderSpec) -> None:
    source = headers.prepare(wanted) / "prefix.hip"
    os.utime(source, (1, 1))
    assert (headers.prepare(wanted) / "prefix.hip").stat().st_mtime == 1
    source.write_text("damaged")
    assert (headers.prepare(wanted) / "prefix.hip").read_text() == TEXT


@pytest.mark.parametrize(
    ("side", "text", "identity", "same"),
    [
        (PassSide.DEVICE, TEXT, "compiler 1", True),
        (PassSide.HOST, TEXT, "compiler 1", False),
        (PassSide.DEVICE, f"{TEXT}\n", "compiler 1", False),
        (PassSide.DEVICE, TEXT, "compiler 2", False),
    ],
)
def test_names(
    store: ArtifactStore, include: Path, wanted: HeaderSpec, side: PassSide, text: str, identity: str, same: bool
) -> None:
    other = make_headers(store, include, identity).wanted(side, text, PLAN)
    assert (other.key == wanted.key) is same


def several(headers: PrecompiledHeaderStore, include: Path, ages: list[float]) -> list[str]:
    """As many, of 1000 bytes and a little, last used so many seconds ago."""
    keys = []
    for number, seconds in enumerate(ages):
        wanted = headers.wanted(PassSide.HOST, f"{TEXT}// {number}\n", PLAN)
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
    headers: PrecompiledHeaderStore, include: Path, ages: list[float], limits: dict[str, int], kept: list[int]
) -> None:
    keys = several(headers, include, ages)
    assert headers.tidy(**limits) == len(ages) - len(kept)
    assert left(headers) == {keys[number] for number in kept}


def test_one_that_is_found_is_used(headers: PrecompiledHeaderStore, wanted: HeaderSpec, include: Path) -> None:
    made(headers, wanted, include)
    age(headers, wanted, 5000)
    headers.find(wanted)
    assert headers.tidy(count_limit=0) == 0


@pytest.mark.parametrize(("seconds", "removed"), [(0, 0), (5000, 1)])
def test_what_was_left_half_made_goes_when_nobody_makes_it(
    headers: PrecompiledHeaderStore, wanted: HeaderSpec, seconds: float, removed: int
) -> None:
    folder = headers.prepare(wanted)
    (folder / f"{HEADER_NAME}.123").write_bytes(b"half")
    then = time.time() - seconds
    os.utime(folder, (then, then))
    assert headers.tidy() == removed


def test_nothing_to_tidy(headers: PrecompiledHeaderStore) -> None:
    assert headers.tidy() == 0


def test_a_refusal_holds_for_this_compiler(store: ArtifactStore, include: Path, wanted: HeaderSpec) -> None:
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
def test_a_damaged_refusal_is_none(headers: PrecompiledHeaderStore, told: str) -> None:
    headers.folder.mkdir(parents=True)
    (headers.folder / "refused.json").write_text(told)
    assert headers.refusal() is None


def test_what_failed_is_not_tried_again_at_once(headers: PrecompiledHeaderStore, wanted: HeaderSpec) -> None:
    headers.failed(wanted)
    other = headers.wanted(PassSide.HOST, TEXT, PLAN)
    assert (headers.worth_trying(wanted), headers.worth_trying(other)) == (False, True)


PREFIX = "#include <a.h>\n"
TWICE = PREFIX + PREFIX
FIRST, SECOND = "k_aaaaaaaaaaaa", "k_bbbbbbbbbbbb"


@pytest.fixture
def hip(tmp_path: Path) -> FakeHip:
    return fake_hip(tmp_path)


@pytest.fixture
def warming(hip: FakeHip, store: ArtifactStore) -> HeaderWarmup:
    return make_warming(hip, store)


def make_warming(hip: FakeHip, store: ArtifactStore) -> HeaderWarmup:
    """As another process would have it."""
    headers = PrecompiledHeaderStore(store, PathRoots(hip.toolchain.roots), hip.toolchain.identity)
    return HeaderWarmup(hip.toolchain, store, headers, hip)


def one(warming: HeaderWarmup, side: PassSide = PassSide.DEVICE, source: str = SOURCE) -> HeaderSpec:
    """The best candidate."""
    return warming.candidates(request(source), side, PLAN)[0]


def family(name: str, symbol: str = SYMBOL) -> str:
    return WARM.replace("v3", name).replace(SYMBOL, symbol)


async def test_made_once_and_found(warming: HeaderWarmup, hip: FakeHip, store: ArtifactStore) -> None:
    for side in PassSide:
        wanted = one(warming, side)
        assert warming.find(request(), side, PLAN) is None
        assert await warming.make(wanted, request(), PLAN)
        assert await warming.make(wanted, request(), PLAN)
        found = warming.find(request(), side, PLAN)
        assert found is not None
        assert [Path(header).name for header in found.headers] == ["a.h", f"{side}.h"]
    assert hip.steps == [HEADER_OF[side] for side in PassSide]
    assert warming.lacking(request(), PLAN) == []
    assert list(store.locks.iterdir()) == []
    assert list(store.folder.glob("runs/*/*")) == []


async def test_how_it_is_made(warming: HeaderWarmup, hip: FakeHip) -> None:
    await warming.make(one(warming), request(), PLAN)
    (run,) = hip.runs
    assert run.arguments[0] == PLAN.device[0]
    assert {"-emit-pch", "-fno-cxx-modules", "-fpch-instantiate-templates"} <= set(run.arguments)
    assert run.text == TWICE
    assert not run.folder.exists()


async def test_two_tasks_that_want_one_make_it_once(warming: HeaderWarmup, hip: FakeHip) -> None:
    results: list[bool] = []

    async def make() -> None:
        results.append(await warming.make(one(warming), request(), PLAN))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(make)
    assert (results, hip.steps) == ([True, True, True], [Step.DEVICE_HEADER])


async def test_another_process_that_makes_it_is_not_waited_for(
    warming: HeaderWarmup, hip: FakeHip, store: ArtifactStore
) -> None:
    wanted = one(warming)
    path = store.locks / f"{wanted.key}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = try_lock(path)
    assert lock is not None
    assert not await warming.make(wanted, request(), PLAN)
    assert hip.runs == []
    unlock(path, lock)
    assert await warming.make(wanted, request(), PLAN)


async def test_stopped_while_it_is_made(warming: HeaderWarmup, hip: FakeHip, store: ArtifactStore) -> None:
    begun = anyio.Event()

    async def half(run: Run) -> None:
        run.output.write_bytes(b"half")
        begun.set()
        await anyio.sleep_forever()

    hip.answer(Step.DEVICE_HEADER, during=half)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(warming.make, one(warming), request(), PLAN)
        with anyio.fail_after(PATIENCE_S):
            await begun.wait()
        tasks.cancel_scope.cancel()
    assert (hip.running, list(store.locks.iterdir())) == ([], [])
    assert not hip.runs[0].output.exists()
    assert not hip.runs[0].folder.exists()
    assert warming.find(request(), PassSide.DEVICE, PLAN) is None
    hip.answer(Step.DEVICE_HEADER)
    assert await warming.make(one(warming), request(), PLAN)


@pytest.mark.parametrize(
    ("status", "exit_reason", "tried_again"),
    [
        (1, ExitReason.EXITED, False),
        (-9, ExitReason.SIGNALLED, True),
        (-15, ExitReason.TIMED_OUT, True),
        (-9, ExitReason.OUT_OF_MEMORY, True),
    ],
)
async def test_one_that_cannot_be_made(
    warming: HeaderWarmup, hip: FakeHip, status: int, exit_reason: ExitReason, tried_again: bool
) -> None:
    hip.answer(Step.DEVICE_HEADER, "prefix.hip:1:1: error: no\n", status, exit_reason=exit_reason)
    assert not await warming.make(one(warming), request(), PLAN)
    assert warming.find(request(), PassSide.DEVICE, PLAN) is None
    assert (warming.lacking(request(), PLAN, [PassSide.DEVICE]) != []) is tried_again
    assert warming.lacking(request(), PLAN, [PassSide.HOST]) != []


@pytest.mark.parametrize("full", [OSError(errno.ENOSPC, "full"), StoreError("full", no_space=True)])
async def test_no_space_for_it(
    warming: HeaderWarmup, hip: FakeHip, store: ArtifactStore, monkeypatch: pytest.MonkeyPatch, full: Exception
) -> None:
    def raises() -> Path:
        raise full

    with monkeypatch.context() as patch:
        patch.setattr(store, "work_folder", raises)
        assert not await warming.make(one(warming), request(), PLAN)
    assert await warming.make(one(warming), request(), PLAN)


@pytest.mark.parametrize(
    ("said", "made"),
    [
        ("", True),
        ("warning: unknown warning option '-Wx' [-Wunknown-warning-option]\n", True),
        ("{source}:1:2: warning: unused [-Wunused-function]\n", True),
        ("{source}:2:9: warning: 'A' macro redefined [-Wmacro-redefined]\nhere.h:1:9: note: previous\n", False),
        ("In file included from {source}:1:\n/own/a.h:1:2: warning: unused [-Wunused-variable]\n", False),
    ],
)
async def test_messages_that_a_source_with_it_would_lack(
    warming: HeaderWarmup, hip: FakeHip, said: str, made: bool
) -> None:
    async def says(run: Run) -> None:
        hip.answer(Step.DEVICE_HEADER, said.format(source=run.arguments[-1]))

    hip.answer(Step.DEVICE_HEADER, during=says)
    assert await warming.make(one(warming), request(), PLAN) is made
    assert (warming.find(request(), PassSide.DEVICE, PLAN) is not None) is made


async def test_a_header_edited_meanwhile(warming: HeaderWarmup, hip: FakeHip) -> None:
    """Another text may have been read; the next one is made of what is there now."""
    header = hip.toolchain.include_folders[0] / "a.h"

    async def edit(_: Run) -> None:
        await anyio.sleep(0.02)  # so that the kernel's clock for files, which steps by ms, has moved on
        header.write_text("int b;\n")

    hip.answer(Step.DEVICE_HEADER, during=edit)
    assert not await warming.make(one(warming), request(), PLAN)
    hip.answer(Step.DEVICE_HEADER, during=None)
    assert await warming.make(one(warming), request(), PLAN)


async def test_headers_that_would_be_read_instead(warming: HeaderWarmup, hip: FakeHip, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    own = request(include_folders=(mine,))
    assert await warming.make(one(warming), own, PLAN)
    assert warming.find(own, PassSide.DEVICE, PLAN) is not None
    (mine / "a.h").touch()
    assert warming.find(own, PassSide.DEVICE, PLAN) is None


def texts(warming: HeaderWarmup, source: str, **more: bool) -> list[str]:
    return [wanted.text for wanted in warming.candidates(request(source), PassSide.HOST, PLAN, **more)]


def test_candidates_of_a_source_that_takes_no_part(warming: HeaderWarmup) -> None:
    warming.built(request(SOURCE), PLAN)
    assert texts(warming, SOURCE) == [TWICE]
    assert texts(warming, "int k();\n") == []


def test_the_family_s_own_comes_first(warming: HeaderWarmup) -> None:
    assert texts(warming, family("v3")) == [TWICE]
    symbols = {"v1": FIRST, "v3": SECOND}
    sources = {name: family(name, symbol) for name, symbol in symbols.items()}
    for name, source in sources.items():
        warming.built(request(source, symbol=symbols[name]), PLAN)
    warm = {name: warm_text(PREFIX, source, symbols[name]) for name, source in sources.items()}
    assert texts(warming, family("v1")) == [warm["v1"], warm["v3"], TWICE]
    assert texts(warming, family("v3")) == [warm["v3"], warm["v1"], TWICE]
    assert texts(warming, family("v4")) == [warm["v1"], warm["v3"], TWICE]
    assert texts(warming, family("v3"), warm=False) == [TWICE]


def of_number(number: int, more: str = "") -> CompileRequest:
    """One of eight sources of a family, each of lines that it has in common with its neighbours."""
    symbol = f"k_{number:012x}"
    lines = "".join(f"int line_{line};\n" for line in range(number, number + 4))
    return request(f"{family('v3', symbol)}{lines}{more}", symbol=symbol)


def numbers(warming: HeaderWarmup, number: int) -> list[int]:
    """Those by which one is warmed up, the best first."""
    found = (re.search(r"int k_(\w{12})_warm_up", text) for text in texts(warming, of_number(number).source))
    return [int(match[1], 16) for match in found if match]


def test_the_first_built_represent_their_family_and_the_nearest_is_taken(warming: HeaderWarmup) -> None:
    for number in (1, 7, 3, 5, 2, 4):
        warming.built(of_number(number), PLAN)
    assert REPRESENTATIVES == 4
    assert numbers(warming, 3) == [3, 5, 1, 7]
    assert numbers(warming, 6) == [5, 7, 3, 1]


async def test_an_edited_one_takes_the_place_of_the_oldest(warming: HeaderWarmup) -> None:
    """And the oldest one's headers are removed."""
    specs = {}
    for number in (1, 2, 3, 4):
        warming.built(of_number(number), PLAN)
        specs[number] = one(warming, source=of_number(number).source)
        assert await warming.make(specs[number], of_number(number), PLAN)
    warming.built(of_number(5), PLAN, edited=True)
    assert numbers(warming, 5) == [5, 4, 3, 2]
    assert left(warming.headers) == {specs[number].key for number in (2, 3, 4)}
    warming.built(of_number(3), PLAN, edited=True)
    assert numbers(warming, 3) == [3, 4, 2, 5]


@pytest.mark.parametrize("other", [{"kernel": "another"}, {"source": f"#include <b.h>\n{WARM}"}])
def test_another_kernel_s_are_not_its_own(warming: HeaderWarmup, other: dict[str, str]) -> None:
    warming.built(request(WARM), PLAN)
    asked = request(**{"source": WARM, **other})
    assert len(warming.candidates(asked, PassSide.HOST, PLAN)) == 1


def test_so_many_families_are_remembered(warming: HeaderWarmup) -> None:
    for number in range(FAMILIES + 3):
        warming.built(request(family(f"v{number}")), PLAN)
    assert len(texts(warming, WARM)) == FAMILIES + 1


def stored(store: ArtifactStore) -> Path:
    (file,) = (store.folder / "representatives").iterdir()
    return file


def test_they_are_remembered_on_disk(warming: HeaderWarmup, hip: FakeHip, store: ArtifactStore) -> None:
    warming.built(request(f"{family('v3')}// ü\n"), PLAN)
    warming.built(request(family("v1")), PLAN)
    again = make_warming(hip, store)
    assert texts(again, WARM) == texts(warming, WARM)
    assert len(texts(again, WARM)) == 3
    assert len(list(stored(store).parent.iterdir())) == 1


def test_another_compiler_s_are_not_its_own(warming: HeaderWarmup, hip: FakeHip, store: ArtifactStore) -> None:
    warming.built(request(WARM), PLAN)
    hip.toolchain = replace(hip.toolchain, identity="compiler 2")
    assert texts(make_warming(hip, store), WARM) == [TWICE]


@pytest.mark.parametrize(
    "damaged", [b"", b"{", b"[]", b"\xff", b'{"v3": 1}', b'{"v3": ["k", "int x;"]}', b'{"v3": null}', b"3"]
)
def test_a_damaged_file_is_none(warming: HeaderWarmup, hip: FakeHip, store: ArtifactStore, damaged: bytes) -> None:
    warming.built(request(WARM), PLAN)
    stored(store).write_bytes(damaged)
    again = make_warming(hip, store)
    assert texts(again, WARM) == [TWICE]
    again.built(request(WARM), PLAN)
    assert json.loads(stored(store).read_text()) == {"v3": [[SYMBOL, WARM]]}


async def test_what_is_lacking_is_the_best_that_can_be_made(warming: HeaderWarmup, hip: FakeHip) -> None:
    wanted = partial(warming.lacking, request(WARM), PLAN, [PassSide.DEVICE])
    (includes,) = wanted()
    assert await warming.make(includes, request(WARM), PLAN)
    assert wanted() == []
    warming.built(request(WARM), PLAN)
    (warm,) = wanted()
    assert (warm.text, wanted(warm=False)) == (warm_text(PREFIX, WARM, SYMBOL), [])
    found = warming.find(request(WARM), PassSide.DEVICE, PLAN)
    assert found is not None
    assert found.source.read_text() == TWICE
    hip.answer(Step.DEVICE_HEADER, "error: no", 1)
    assert not await warming.make(warm, request(WARM), PLAN)
    assert wanted() == []  # the includes are the next best, and there
    hip.answer(Step.DEVICE_HEADER)
    another = make_warming(hip, warming._store)
    assert await another.make(warm, request(WARM), PLAN)
    best = warming.find(request(WARM), PassSide.DEVICE, PLAN)
    assert best is not None
    assert best.source.read_text() == warm.text


async def test_none_is_used_or_made_after_a_refusal(warming: HeaderWarmup) -> None:
    await warming.make(one(warming), request(), PLAN)
    warming.headers.refuse("no")
    assert warming.find(request(), PassSide.DEVICE, PLAN) is None
    assert warming.lacking(request(), PLAN) == []
