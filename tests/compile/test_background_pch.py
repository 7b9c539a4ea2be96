"""Headers made in the background: for what is being worked on, and only while nothing else is to be done."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from ckwatch.compile.background_pch import KERNELS_KEPT, UNIT_BYTES, BackgroundPch
from ckwatch.compile.builder import Builder
from ckwatch.compile.precompiled_headers import REPRESENTATIVES, HeaderWarmup
from ckwatch.compile.request import CompileRequest
from ckwatch.compile.staged_build import StagedCompiler
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.model.errors import ToolchainError
from ckwatch.model.targets import Language
from fakes.fake_hip import HEADER_OF, PRINTED, WARM, FakeHip, Run, Step, fake_hip, request
from fakes.patience import PATIENCE_S


class Background:
    """The part of a daemon that makes headers, with programs that are none."""

    def __init__(self, folder: Path, store: ArtifactStore) -> None:
        self.hip: FakeHip = fake_hip(folder)
        self.builder = Builder(
            self.hip.toolchain,
            store,
            launch=self.hip,
            make_ladder=lambda: StagedCompiler(self.hip.toolchain, store, self.hip),
        )
        self.busy = False
        self.asked = 0
        self.jobs = 2
        self.available = 64 * UNIT_BYTES
        self.pch = BackgroundPch(self.is_busy, lambda: self.jobs, idle_s=0.004, available=lambda: self.available)

    def is_busy(self) -> bool:
        self.asked += 1
        return self.busy

    def note(
        self,
        asked: CompileRequest | None = None,
        *,
        built: bool = True,
        compiled: bool = True,
        unit: str = "k/one@gfx942",
    ) -> None:
        self.pch.note(asked or request(WARM), unit, self._ladder, built=built, compiled=compiled)

    def _ladder(self) -> StagedCompiler | None:
        return self.builder.ladder

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.pch.run)
            yield
            tasks.cancel_scope.cancel()

    async def idle(self) -> None:
        """Return when there is nothing left to make."""
        await self.until(lambda: not self.pch.pending)

    async def until(self, so: Callable[[], bool]) -> None:
        with anyio.fail_after(PATIENCE_S):
            while not so():  # noqa: ASYNC110  # it sets no event
                await anyio.sleep(0.001)

    @property
    def made(self) -> list[tuple[Step, bool]]:
        """Which headers, and whether with a source."""
        return [(run.step, "_warm_up" in run.text) for run in self.hip.runs if run.step in HEADER_OF.values()]


@pytest.fixture
def background(tmp_path: Path) -> Iterator[Background]:
    with ArtifactStore(tmp_path / "store", grace_s=0) as store:
        yield Background(tmp_path / "hip", store)


INCLUDES = [(Step.HOST_HEADER, False), (Step.DEVICE_HEADER, False)]
INSTANTIATED = [(Step.HOST_HEADER, True), (Step.DEVICE_HEADER, True)]


@pytest.mark.parametrize(
    ("built", "compiled", "made"),
    [(True, True, INSTANTIATED), (True, False, INCLUDES), (False, True, INCLUDES), (False, False, INCLUDES)],
)
async def test_what_is_made(background: Background, built: bool, compiled: bool, made: list[tuple[Step, bool]]) -> None:
    """Templates are instantiated for a kernel that was compiled just now, and that compiles."""
    background.note(built=built, compiled=compiled)
    assert background.pch.pending
    async with background.running():
        await background.idle()
    assert background.made == made
    assert not background.pch.making


@pytest.mark.parametrize(("jobs", "together"), [(1, 1), (2, 1), (3, 2), (16, 2)])
async def test_both_sides_are_made_where_a_core_stays_free(background: Background, jobs: int, together: int) -> None:
    async def meet(_run: Run) -> None:
        await background.until(lambda: background.hip.together == together)

    background.jobs = jobs
    for step in HEADER_OF.values():
        background.hip.answer(step, during=meet)
    background.note()
    async with background.running():
        await background.idle()
    assert len(background.made) == 2
    assert background.hip.together == together


@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize(
    ("jobs", "units_of_memory", "together"), [(2, 64, 1), (4, 64, 2), (5, 64, 4), (16, 64, 8), (16, 3, 6), (16, 0, 2)]
)
async def test_those_of_several_units_are_made_where_cores_and_memory_stay_free(
    background: Background, jobs: int, units_of_memory: int, together: int, lines: bool
) -> None:
    """Also of those whose source a clang is to parse, with `lines`."""

    async def meet(_run: Run) -> None:
        await background.until(lambda: background.hip.together == together)

    background.jobs, background.available = jobs, units_of_memory * UNIT_BYTES
    for step in HEADER_OF.values():
        background.hip.answer(step, during=meet)
    for number in range(4):
        asked = request(f"{WARM}int x_{number};\n", kernel=f"k{number}", lines=lines)
        background.note(asked, unit=f"k{number}/one@gfx942")
    async with background.running():
        await background.idle()
    assert background.hip.together == together


async def test_one_text_is_parsed_at_a_time(background: Background, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clangs that are kept, which get one after the other."""
    parsed, together = [], []

    async def keep(_warming: HeaderWarmup, asked: CompileRequest, *_: object, again: bool) -> bool:
        together.append(asked.kernel)
        await anyio.sleep(0.02)
        parsed.append((len(together), again))
        together.clear()
        return False

    monkeypatch.setattr(HeaderWarmup, "keep", keep)
    background.jobs = 16
    for number in range(4):
        asked = request(f"{WARM}int x_{number};\n", kernel=f"k{number}", lines=True)
        background.note(asked, unit=f"k{number}/one@gfx942")
    async with background.running():
        await background.idle()
    assert set(parsed) == {(1, True)}
    assert len(background.made) == 8


async def test_what_is_there_is_not_made_again(background: Background) -> None:
    async with background.running():
        for _ in range(2):
            background.note()
            await background.idle()
    assert background.made == INSTANTIATED


@pytest.mark.parametrize(
    ("found", "unit", "more"),
    [
        (False, "k/one@gfx942", INSTANTIATED),
        (True, "k/one@gfx942", INSTANTIATED),
        (False, "k/two@gfx942", []),
    ],
    ids=["compiled again", "found, then compiled", "another of its family"],
)
async def test_a_unit_that_is_edited_is_instantiated_itself(
    background: Background, found: bool, unit: str, more: list[tuple[Step, bool]]
) -> None:
    """Although its family has as many as are remembered."""
    async with background.running():
        background.note(unit="k/one@gfx942", compiled=not found)
        for number in range(REPRESENTATIVES):
            background.note(request(f"{WARM}int x_{number};\n"), unit=f"k/{number}@gfx942")
        await background.idle()
        background.hip.runs.clear()
        background.note(request(f"{WARM}int edited;\n"), unit=unit)
        await background.idle()
    assert background.made == more


async def test_what_was_found_first_and_then_compiled(background: Background) -> None:
    """A look-up does not forget what was known of it."""
    background.note(built=False, compiled=True)
    background.note(built=True, compiled=False)
    async with background.running():
        await background.idle()
    assert background.made == INSTANTIATED


async def test_none_is_made_while_there_is_something_to_do(background: Background) -> None:
    background.busy = True
    async with background.running():
        background.note()
        await background.until(lambda: background.asked > 20)
        assert background.hip.runs == []
        background.busy = False
        await background.idle()
    assert background.made == INSTANTIATED


async def test_what_needs_none(background: Background) -> None:
    background.note(request(language=Language.CPP))
    background.pch.note(request(WARM), "k/one@gfx942", None, built=True, compiled=True)
    assert not background.pch.pending


async def test_the_compiler_goes_before_they_are_made(background: Background) -> None:
    background.pch.note(request(WARM), "k/one@gfx942", lambda: None, built=True, compiled=True)
    async with background.running():
        await background.idle()
    assert background.hip.runs == []


@pytest.mark.parametrize("step", [Step.ASK, Step.HOST_HEADER])
async def test_a_program_that_cannot_be_started(background: Background, step: Step) -> None:
    """The daemon goes on, and makes them when there is something new to make and the program is there."""

    async def cannot(_: Run) -> None:
        raise ToolchainError("cannot start clang")

    background.hip.answer(step, background.hip.answers[step].said, during=cannot)
    async with background.running():
        background.note()
        await background.idle()
        background.hip.answer(step, PRINTED if step is Step.ASK else "")
        background.hip.runs.clear()
        background.note()
        await background.idle()
    assert background.made == INSTANTIATED


async def test_compiles_that_are_not_taken_apart(background: Background) -> None:
    background.hip.answer(Step.ASK, "")
    background.note()
    async with background.running():
        await background.idle()
    assert background.hip.steps == [Step.ASK]


async def test_one_that_cannot_be_made_is_given_up(background: Background) -> None:
    for step in HEADER_OF.values():
        background.hip.answer(step, "error: no\n", 1)
    background.note()
    async with background.running():
        await background.idle()
    assert 0 < len(background.made) <= 4


async def test_the_last_noted_comes_first_and_the_oldest_are_forgotten(background: Background) -> None:
    for number in range(KERNELS_KEPT + 2):
        source = f"#include <a.h>\n#include <{number}.h>\nint x;\n"
        background.note(request(source, kernel=f"k{number}"), built=False)
    async with background.running():
        await background.idle()
    texts = [run.text for run in background.hip.runs_of(Step.HOST_HEADER)]
    numbers = [int(text.rpartition("<")[2].partition(".")[0]) for text in texts]
    assert numbers == list(range(KERNELS_KEPT + 1, 1, -1))


async def test_stopped_while_one_is_made(background: Background) -> None:
    background.hip.answer(Step.HOST_HEADER, during=lambda _: anyio.sleep_forever())
    background.note()
    async with background.running():
        await background.until(lambda: background.pch.making)
        await background.until(lambda: Step.HOST_HEADER in background.hip.running)
    assert (background.pch.making, background.hip.running) == (False, [])


async def test_cancelled_while_one_is_made(background: Background) -> None:
    background.hip.answer(Step.HOST_HEADER, during=lambda _: anyio.sleep_forever())
    asked = request(WARM)
    background.note(asked)
    async with background.running():
        await background.until(lambda: Step.HOST_HEADER in background.hip.running)
        assert background.pch.cancel({("k", "gfx90a"), ("other", asked.arch)}) == []
        assert background.pch.cancel({("k", asked.arch)}) == ["k/one@gfx942"]
        await background.idle()
        assert background.hip.running == []
        background.hip.answer(Step.HOST_HEADER, during=None)
        begun = len(background.made)
        background.note(asked)
        await background.until(lambda: not background.pch.pending)
        assert len(background.made) > begun
