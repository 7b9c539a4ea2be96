"""Which precompiled headers help, and making them: once, alone, and all of it or nothing."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from ckwatch.compile.plan import Side
from ckwatch.compile.precompiled import PrecompiledHeaders, Wanted
from ckwatch.compile.prefix import warm_text
from ckwatch.compile.processes import Verdict
from ckwatch.compile.warming import FAMILIES, Warming
from ckwatch.store import ArtifactStore, Roots, StoreError
from ckwatch.store.locking import try_lock, unlock
from fake_hip import HEADER_OF, PLAN, SOURCE, SYMBOL, WARM, FakeHip, Run, Step, fake_hip, request
from patience import PATIENCE_S

PREFIX = "#include <a.h>\n"
TWICE = PREFIX + PREFIX
FIRST, SECOND = "k_aaaaaaaaaaaa", "k_bbbbbbbbbbbb"


@pytest.fixture
def hip(tmp_path: Path) -> FakeHip:
    return fake_hip(tmp_path)


@pytest.fixture
def warming(hip: FakeHip, store: ArtifactStore) -> Warming:
    return make_warming(hip, store)


def make_warming(hip: FakeHip, store: ArtifactStore) -> Warming:
    """As another process would have it."""
    headers = PrecompiledHeaders(store, Roots(hip.toolchain.roots), hip.toolchain.identity)
    return Warming(hip.toolchain, store, headers, hip)


def one(warming: Warming, side: Side = Side.DEVICE, source: str = SOURCE) -> Wanted:
    """The best candidate."""
    return warming.candidates(request(source), side, PLAN)[0]


def family(name: str, symbol: str = SYMBOL) -> str:
    return WARM.replace("v3", name).replace(SYMBOL, symbol)


async def test_made_once_and_found(warming: Warming, hip: FakeHip, store: ArtifactStore) -> None:
    for side in Side:
        wanted = one(warming, side)
        assert warming.find(request(), side, PLAN) is None
        assert await warming.make(wanted, request(), PLAN)
        assert await warming.make(wanted, request(), PLAN)
        found = warming.find(request(), side, PLAN)
        assert found is not None
        assert [Path(header).name for header in found.headers] == ["a.h", f"{side}.h"]
    assert hip.steps == [HEADER_OF[side] for side in Side]
    assert warming.lacking(request(), PLAN) == []
    assert list(store.locks.iterdir()) == []
    assert list(store.folder.glob("runs/*/*")) == []


async def test_how_it_is_made(warming: Warming, hip: FakeHip) -> None:
    await warming.make(one(warming), request(), PLAN)
    (run,) = hip.runs
    assert run.arguments[0] == PLAN.device[0]
    assert {"-emit-pch", "-fno-cxx-modules", "-fpch-instantiate-templates"} <= set(run.arguments)
    assert run.text == TWICE
    assert "CPATH" not in run.environment
    assert not run.folder.exists()


async def test_two_tasks_that_want_one_make_it_once(warming: Warming, hip: FakeHip) -> None:
    results: list[bool] = []

    async def make() -> None:
        results.append(await warming.make(one(warming), request(), PLAN))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(make)
    assert (results, hip.steps) == ([True, True, True], [Step.DEVICE_HEADER])


async def test_another_process_that_makes_it_is_not_waited_for(
    warming: Warming, hip: FakeHip, store: ArtifactStore
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


async def test_stopped_while_it_is_made(warming: Warming, hip: FakeHip, store: ArtifactStore) -> None:
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
    assert warming.find(request(), Side.DEVICE, PLAN) is None
    hip.answer(Step.DEVICE_HEADER)
    assert await warming.make(one(warming), request(), PLAN)


@pytest.mark.parametrize(
    ("status", "verdict", "tried_again"),
    [
        (1, Verdict.EXITED, False),
        (-9, Verdict.SIGNALLED, True),
        (-15, Verdict.TIMED_OUT, True),
        (-9, Verdict.OUT_OF_MEMORY, True),
    ],
)
async def test_one_that_cannot_be_made(
    warming: Warming, hip: FakeHip, status: int, verdict: Verdict, tried_again: bool
) -> None:
    hip.answer(Step.DEVICE_HEADER, "prefix.hip:1:1: error: no\n", status, verdict=verdict)
    assert not await warming.make(one(warming), request(), PLAN)
    assert warming.find(request(), Side.DEVICE, PLAN) is None
    assert (warming.lacking(request(), PLAN, [Side.DEVICE]) != []) is tried_again
    assert warming.lacking(request(), PLAN, [Side.HOST]) != []


@pytest.mark.parametrize("full", [OSError(errno.ENOSPC, "full"), StoreError("full", no_space=True)])
async def test_no_space_for_it(
    warming: Warming, hip: FakeHip, store: ArtifactStore, monkeypatch: pytest.MonkeyPatch, full: Exception
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
async def test_messages_that_a_source_with_it_would_lack(warming: Warming, hip: FakeHip, said: str, made: bool) -> None:
    async def says(run: Run) -> None:
        hip.answer(Step.DEVICE_HEADER, said.format(source=run.arguments[-1]))

    hip.answer(Step.DEVICE_HEADER, during=says)
    assert await warming.make(one(warming), request(), PLAN) is made
    assert (warming.find(request(), Side.DEVICE, PLAN) is not None) is made


async def test_a_header_edited_meanwhile(warming: Warming, hip: FakeHip) -> None:
    """Another text may have been read; the next one is made of what is there now."""
    header = hip.toolchain.include_folders[0] / "a.h"

    async def edit(_: Run) -> None:
        await anyio.sleep(0.02)  # so that the kernel's clock for files, which steps by ms, has moved on
        header.write_text("int b;\n")

    hip.answer(Step.DEVICE_HEADER, during=edit)
    assert not await warming.make(one(warming), request(), PLAN)
    hip.answer(Step.DEVICE_HEADER, during=None)
    assert await warming.make(one(warming), request(), PLAN)


async def test_headers_that_would_be_read_instead(warming: Warming, hip: FakeHip, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    own = request(include_folders=(mine,))
    assert await warming.make(one(warming), own, PLAN)
    assert warming.find(own, Side.DEVICE, PLAN) is not None
    (mine / "a.h").touch()
    assert warming.find(own, Side.DEVICE, PLAN) is None


def texts(warming: Warming, source: str, **more: bool) -> list[str]:
    return [wanted.text for wanted in warming.candidates(request(source), Side.HOST, PLAN, **more)]


def test_candidates_of_a_source_that_takes_no_part(warming: Warming) -> None:
    warming.built(request(SOURCE), PLAN)
    assert texts(warming, SOURCE) == [TWICE]
    assert texts(warming, "int k();\n") == []


def test_the_family_s_own_comes_first(warming: Warming) -> None:
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


def test_the_first_built_represents_its_family(warming: Warming) -> None:
    first, second = family("v3", FIRST), family("v3", SECOND)
    warming.built(request(first, symbol=FIRST), PLAN)
    warming.built(request(second, symbol=SECOND), PLAN)
    assert texts(warming, second) == [warm_text(PREFIX, first, FIRST), TWICE]


@pytest.mark.parametrize("other", [{"kernel": "another"}, {"source": f"#include <b.h>\n{WARM}"}])
def test_another_kernel_s_are_not_its_own(warming: Warming, other: dict[str, str]) -> None:
    warming.built(request(WARM), PLAN)
    asked = request(**{"source": WARM, **other})
    assert len(warming.candidates(asked, Side.HOST, PLAN)) == 1


def test_so_many_families_are_remembered(warming: Warming) -> None:
    for number in range(FAMILIES + 3):
        warming.built(request(family(f"v{number}")), PLAN)
    assert len(texts(warming, WARM)) == FAMILIES + 1


def stored(store: ArtifactStore) -> Path:
    (file,) = (store.folder / "representatives").iterdir()
    return file


def test_they_are_remembered_on_disk(warming: Warming, hip: FakeHip, store: ArtifactStore) -> None:
    warming.built(request(f"{family('v3')}// ü\n"), PLAN)
    warming.built(request(family("v1")), PLAN)
    again = make_warming(hip, store)
    assert texts(again, WARM) == texts(warming, WARM)
    assert len(texts(again, WARM)) == 3
    assert len(list(stored(store).parent.iterdir())) == 1


def test_another_compiler_s_are_not_its_own(warming: Warming, hip: FakeHip, store: ArtifactStore) -> None:
    warming.built(request(WARM), PLAN)
    hip.toolchain = replace(hip.toolchain, identity="compiler 2")
    assert texts(make_warming(hip, store), WARM) == [TWICE]


@pytest.mark.parametrize("damaged", [b"", b"{", b"[]", b"\xff", b'{"v3": 1}', b'{"v3": []}', b'{"v3": null}', b"3"])
def test_a_damaged_file_is_none(warming: Warming, hip: FakeHip, store: ArtifactStore, damaged: bytes) -> None:
    warming.built(request(WARM), PLAN)
    stored(store).write_bytes(damaged)
    again = make_warming(hip, store)
    assert texts(again, WARM) == [TWICE]
    again.built(request(WARM), PLAN)
    assert json.loads(stored(store).read_text()) == {"v3": [SYMBOL, WARM]}


async def test_what_is_lacking_is_the_best_that_can_be_made(warming: Warming, hip: FakeHip) -> None:
    wanted = partial(warming.lacking, request(WARM), PLAN, [Side.DEVICE])
    (includes,) = wanted()
    assert await warming.make(includes, request(WARM), PLAN)
    assert wanted() == []
    warming.built(request(WARM), PLAN)
    (warm,) = wanted()
    assert (warm.text, wanted(warm=False)) == (warm_text(PREFIX, WARM, SYMBOL), [])
    found = warming.find(request(WARM), Side.DEVICE, PLAN)
    assert found is not None
    assert found.source.read_text() == TWICE
    hip.answer(Step.DEVICE_HEADER, "error: no", 1)
    assert not await warming.make(warm, request(WARM), PLAN)
    assert wanted() == []  # the includes are the next best, and there
    hip.answer(Step.DEVICE_HEADER)
    another = make_warming(hip, warming._store)
    assert await another.make(warm, request(WARM), PLAN)
    best = warming.find(request(WARM), Side.DEVICE, PLAN)
    assert best is not None
    assert best.source.read_text() == warm.text


async def test_none_is_used_or_made_after_a_refusal(warming: Warming) -> None:
    await warming.make(one(warming), request(), PLAN)
    warming.headers.refuse("no")
    assert warming.find(request(), Side.DEVICE, PLAN) is None
    assert warming.lacking(request(), PLAN) == []
