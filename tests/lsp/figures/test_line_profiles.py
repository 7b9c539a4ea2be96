"""Where work goes, at the lines of an open template."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest
from lsprotocol import types

from ckwatch.codeobject.profile_hints import hints_of
from ckwatch.model.errors import CkwatchError
from ckwatch.model.profiles import KernelProfile
from ckwatch.wire.analysis import UnitProfile
from ckwatch_lsp.figures.line_profiles import MOST_LINES, line_notes
from codeobject.test_profile import figures as line_figures
from codeobject.test_profile import profile_with
from lsp.figures.desk import Desk, MadeUpClient, desk
from lsp.figures.made_up import figures, unit

PATH = "/w/k.hip.j2"
COLUMN = line_figures(issued=10, lanes=640, accesses=10, turns=640, phases=20, fullest=32)
TEXT = "first\n  second\nvoid {{ def_kernel(inputs=[X]) }} {}\n"


def profile(kernel: KernelProfile) -> UnitProfile:
    return UnitProfile(
        unit="k/one@gfx942", artifact_key="a1", device="emulated:gfx942", shape="M=64", shape_name="", kernels=(kernel,),
        hints=hints_of([kernel]),
    )  # fmt: skip


class ProfilingClient(MadeUpClient):
    """Answers with a profile of lines of the template that is open; `profiled` are the units that were asked about."""

    def __init__(self, kernel: KernelProfile | None) -> None:
        super().__init__()
        self.kernel = kernel
        self.profiled: list[str] = []

    async def analysis(self, _name: str) -> None:
        raise CkwatchError("no artifact")

    async def profile(self, name: str) -> UnitProfile:
        self.profiled.append(name)
        if self.kernel is None:
            raise CkwatchError("it is not emulated")
        return profile(self.kernel)


def at(path: str, kernel: KernelProfile) -> KernelProfile:
    return replace(kernel, lines=tuple(replace(line, path=path) for line in kernel.lines))


async def opened(made: Desk, kernel: KernelProfile | None) -> tuple[str, ProfilingClient]:
    client = ProfilingClient(kernel)
    made.client = client
    made.folder.client = client  # type: ignore[assignment]  # it answers what is asked here
    uri = made.open("templates/k.hip.j2", TEXT)
    client.reading["/ws/templates/k.hip.j2"] = ["k/one@gfx942"]
    await made.report(unit("one", figures=figures()))
    await made.settle()
    return uri, client


async def shown(made: Desk, uri: str) -> dict[int, str]:
    """Without the figures of the unit, which stand at the kernel; once what is asked for is there."""
    await made.hints(uri)
    await anyio.wait_all_tasks_blocked()
    hints = await made.hints(uri)
    return {line: label for line, label in hints.items() if "occ" not in label}


def test_losses_come_first_then_lines_with_many_instructions() -> None:
    many = [line_figures(issued=100 - number) for number in range(MOST_LINES)]
    notes = line_notes(profile(profile_with(*many, COLUMN)), PATH)
    assert len(notes) == MOST_LINES
    assert [note.line for note in notes] == [0, 1, 2, 3, 4, MOST_LINES]
    assert notes[-1].label == "32-way LDS conflict"
    assert notes[0].label == "17 % of instructions"
    assert "counted on 1 of 1 workgroups of M=64 (emulated gfx942); no times" in notes[0].tooltip


def test_lines_of_other_files_are_not_shown() -> None:
    assert line_notes(profile(profile_with(COLUMN)), "/w/other.hip.j2") == []


def test_a_line_without_weight_has_no_hint() -> None:
    notes = line_notes(profile(profile_with(line_figures(issued=1000), line_figures(issued=10, lanes=640))), PATH)
    assert [note.line for note in notes] == [0]


async def test_hints_stand_at_the_ends_of_lines() -> None:
    async with desk() as made:
        uri, client = await opened(made, at("/ws/templates/k.hip.j2", profile_with(line_figures(), COLUMN)))
        assert await shown(made, uri) == {0: "91 % of instructions", 1: "32-way LDS conflict"}
        assert client.profiled == ["k/one@gfx942"]
        assert [(each.code, each.severity) for each in made.session.information("/ws/templates/k.hip.j2")] == [
            ("profile/lds-conflict", types.DiagnosticSeverity.Hint)
        ]


async def test_another_text_shows_nothing_until_it_is_profiled() -> None:
    async with desk() as made:
        uri, client = await opened(made, at("/ws/templates/k.hip.j2", profile_with(COLUMN)))
        assert await shown(made, uri) == {0: "32-way LDS conflict"}
        await made.report(unit("one", phase="compiling", figures=figures()))
        await made.change(uri, "a line more\n" + TEXT)
        assert await shown(made, uri) == {}
        assert client.profiled == ["k/one@gfx942"]
        await made.report(unit("one", figures=figures(artifact_key="a2")))
        await made.settle()
        assert await shown(made, uri) == {0: "32-way LDS conflict"}
        assert client.profiled == ["k/one@gfx942"] * 2


async def test_the_setting_turns_it_off() -> None:
    async with desk() as made:
        made.set(profile=False)
        uri, client = await opened(made, at("/ws/templates/k.hip.j2", profile_with(COLUMN)))
        assert await shown(made, uri) == {}
        assert client.profiled == []


@pytest.mark.parametrize("again", [False, True])
async def test_a_unit_that_cannot_be_profiled_is_asked_about_once(again: bool) -> None:
    async with desk() as made:
        uri, client = await opened(made, None)
        if again:
            await made.report(unit("one", figures=figures(), seconds=3.0))
            await made.settle()
        assert await shown(made, uri) == {}
        assert client.profiled == ["k/one@gfx942"]
