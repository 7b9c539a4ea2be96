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
from fake_hip import HEADER_OF, PLAN, SOURCE, WARM, FakeHip, Run, Step, fake_hip, request

PREFIX = "#include <a.h>\n"


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


def family(name: str, symbol: str = "k_1") -> str:
    return WARM.replace("v3", name).replace("k_1", symbol)


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
    assert run.arguments[:4] == ("nice", "-n", "10", PLAN.device[0])
    assert {"-emit-pch", "-fno-cxx-modules", "-fpch-instantiate-templates"} <= set(run.arguments)
    assert run.text == PREFIX
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
        with anyio.fail_after(20):
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
    assert texts(warming, SOURCE) == [PREFIX]
    assert texts(warming, "int k_1();\n") == []


def test_the_family_s_own_comes_first(warming: Warming) -> None:
    assert texts(warming, family("v3")) == [PREFIX]
    sources = {name: family(name, f"k_{name}") for name in ("v1", "v3")}
    for name, source in sources.items():
        warming.built(request(source, symbol=f"k_{name}"), PLAN)
    warm = {name: warm_text(PREFIX, source, f"k_{name}") for name, source in sources.items()}
    assert texts(warming, family("v1")) == [warm["v1"], warm["v3"], PREFIX]
    assert texts(warming, family("v3")) == [warm["v3"], warm["v1"], PREFIX]
    assert texts(warming, family("v4")) == [warm["v1"], warm["v3"], PREFIX]
    assert texts(warming, family("v3"), warm=False) == [PREFIX]


def test_the_first_built_represents_its_family(warming: Warming) -> None:
    first, second = family("v3", "k_first"), family("v3", "k_second")
    warming.built(request(first, symbol="k_first"), PLAN)
    warming.built(request(second, symbol="k_second"), PLAN)
    assert texts(warming, second) == [warm_text(PREFIX, first, "k_first"), PREFIX]


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
    warming.built(request(family("v3", "k_ü"), symbol="k_ü"), PLAN)
    warming.built(request(family("v1")), PLAN)
    again = make_warming(hip, store)
    assert texts(again, WARM) == texts(warming, WARM)
    assert len(texts(again, WARM)) == 3
    assert len(list(stored(store).parent.iterdir())) == 1


def test_another_compiler_s_are_not_its_own(warming: Warming, hip: FakeHip, store: ArtifactStore) -> None:
    warming.built(request(WARM), PLAN)
    hip.toolchain = replace(hip.toolchain, identity="compiler 2")
    assert texts(make_warming(hip, store), WARM) == [PREFIX]


@pytest.mark.parametrize("damaged", [b"", b"{", b"[]", b"\xff", b'{"v3": 1}', b'{"v3": []}', b'{"v3": null}', b"3"])
def test_a_damaged_file_is_none(warming: Warming, hip: FakeHip, store: ArtifactStore, damaged: bytes) -> None:
    warming.built(request(WARM), PLAN)
    stored(store).write_bytes(damaged)
    again = make_warming(hip, store)
    assert texts(again, WARM) == [PREFIX]
    again.built(request(WARM), PLAN)
    assert json.loads(stored(store).read_text()) == {"v3": ["k_1", WARM]}


async def test_what_is_lacking_is_the_best_that_can_be_made(warming: Warming, hip: FakeHip) -> None:
    wanted = partial(warming.lacking, request(WARM), PLAN, [Side.DEVICE])
    (includes,) = wanted()
    assert await warming.make(includes, request(WARM), PLAN)
    assert wanted() == []
    warming.built(request(WARM), PLAN)
    (warm,) = wanted()
    assert (warm.text, wanted(warm=False)) == (warm_text(PREFIX, WARM, "k_1"), [])
    found = warming.find(request(WARM), Side.DEVICE, PLAN)
    assert found is not None
    assert found.source.read_text() == PREFIX
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
