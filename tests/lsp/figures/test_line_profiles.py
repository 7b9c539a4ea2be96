"""Where work goes, at the lines of an open template."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest
from lsprotocol import types

from ckwatch.codeobject.access_patterns import pattern_of
from ckwatch.codeobject.profile_changes import changes_of
from ckwatch.codeobject.profile_hints import hints_of
from ckwatch.model.errors import CkwatchError
from ckwatch.model.instruction_counts import InstructionCounts, WorstRequest
from ckwatch.model.profiles import KernelProfile, ProfiledInstruction
from ckwatch.wire.analysis import UnitProfile
from ckwatch_lsp.figures.labels import MARKS
from ckwatch_lsp.figures.line_profiles import HEAT, LineProfiles, compared_profile
from ckwatch_lsp.figures.profile_notes import TemplateProfile, template_profile
from codeobject.test_profile import figures as line_figures
from codeobject.test_profile import profile_with
from fakes.patience import PATIENCE_S
from lsp.figures.desk import ABLE, Desk, MadeUpClient, desk
from lsp.figures.made_up import figures, unit

COLUMN = line_figures(issued=10, lanes=640, accesses=10, turns=640, phases=20, fullest=32)
ROW = line_figures(issued=10, lanes=640, accesses=10, turns=20, phases=20, fullest=1)
PATTERN = WorstRequest(lanes=(0, 1), places=(0, 128), size_bytes=4, banks=32, cost=2, least=1)
TEXT = "first\n  second\nvoid {{ def_kernel(inputs=[X]) }} {}\n"


def profile(kernel: KernelProfile, before: KernelProfile | None = None, against: str = "previous") -> UnitProfile:
    return UnitProfile(
        unit="k/one@gfx942", artifact_key="a1", device="emulated:gfx942", shape="M=64", shape_name="", kernels=(kernel,),
        hints=hints_of([kernel]), against="" if before is None else against,
        changes=() if before is None else changes_of([before], [kernel]),
    )  # fmt: skip


def with_pattern(kernel: KernelProfile) -> KernelProfile:
    """Its second line has an instruction with a request that cost more than the least."""
    one = ProfiledInstruction(address=0, text="ds_read_b32 v0, v1", counts=InstructionCounts(1, 1), at=1, worst=PATTERN)
    return replace(kernel, instructions=(one,))


class ProfilingClient(MadeUpClient):
    """Answers with a profile of lines of the template that is open; `profiled` are the units that were asked about."""

    def __init__(self, kernel: KernelProfile | None) -> None:
        super().__init__()
        self.kernel = kernel
        self.before: KernelProfile | None = None
        self.profiled: list[str] = []
        self.against = ""

    async def analysis(self, _name: str) -> None:
        raise CkwatchError("no artifact")

    async def profile(self, name: str, against: str | None = None) -> UnitProfile:
        if against is not None:
            self.profiled.append(name)
            self.against = against
        if self.kernel is None:
            raise CkwatchError("it is not emulated")
        return profile(self.kernel, self.before, self.against)


def at(path: str, kernel: KernelProfile) -> KernelProfile:
    return replace(kernel, lines=tuple(replace(line, path=path) for line in kernel.lines))


async def opened(
    made: Desk, kernel: KernelProfile | None, names: Sequence[str] = ("one",)
) -> tuple[str, ProfilingClient]:
    client = ProfilingClient(kernel)
    made.client = client
    made.folder.client = client  # type: ignore[assignment]  # it answers what is asked here
    uri = made.open("templates/k.hip.j2", TEXT)
    client.reading["/ws/templates/k.hip.j2"] = [f"k/{name}@gfx942" for name in names]
    await made.report(*(unit(name, figures=figures()) for name in names))
    await made.settle()
    return uri, client


async def shown(made: Desk, uri: str) -> dict[int, str]:
    """Without the figures of the unit, which stand at the kernel; once what is asked for is there."""
    await made.hints(uri)
    await answered(made)
    hints = await made.hints(uri)
    return {line: label.strip(MARKS["fresh"]) for line, label in hints.items() if "occ" not in label}


async def answered(made: Desk) -> None:
    """Wait for the profiles that were asked for, which are looked at in a thread."""
    (profiles,) = (one for one in made.session.listeners if isinstance(one, LineProfiles))
    for kept in list(profiles._kept._kept.values()):
        if kept.asked is not None:
            await kept.asked.wait()
    await anyio.wait_all_tasks_blocked()


async def refreshed(made: Desk) -> None:
    """Wait for what is told after a while."""
    await answered(made)
    (profiles,) = (one for one in made.session.listeners if isinstance(one, LineProfiles))
    await profiles._refresh(*made.session.documents)


async def test_hints_stand_at_the_ends_of_lines() -> None:
    async with desk() as made:
        uri, client = await opened(made, at("/ws/templates/k.hip.j2", profile_with(line_figures(), COLUMN)))
        assert await shown(made, uri) == {0: "91 % of instructions", 1: "32-way LDS conflict"}
        assert client.profiled == ["k/one@gfx942"]
        assert [(each.code, each.severity) for each in made.session.information("/ws/templates/k.hip.j2")] == [
            ("profile/lds-conflict", types.DiagnosticSeverity.Hint)
        ]
        made.set(profile_against="two")
        assert await shown(made, uri) == {0: "91 % of instructions", 1: "32-way LDS conflict"}
        assert client.against == "k/two@gfx942"


async def test_hints_move_with_the_text_until_it_is_profiled() -> None:
    async with desk() as made:
        uri, client = await opened(made, at("/ws/templates/k.hip.j2", profile_with(line_figures(), COLUMN)))
        assert await shown(made, uri) == {0: "91 % of instructions", 1: "32-way LDS conflict"}
        await made.report(unit("one", phase="compiling", figures=figures()))
        await made.change(uri, "a line more\n" + TEXT)
        assert await shown(made, uri) == {1: "·91 % of instructions", 2: "·32-way LDS conflict"}
        await made.change(uri, "a line more\n  second\n")
        assert await shown(made, uri) == {1: "·32-way LDS conflict"}
        assert client.profiled == ["k/one@gfx942"]
        await made.report(unit("one", figures=figures(artifact_key="a2")))
        await made.settle()
        assert await shown(made, uri) == {0: "91 % of instructions", 1: "32-way LDS conflict"}
        assert client.profiled == ["k/one@gfx942"] * 2


async def test_what_changed_stands_at_its_line() -> None:
    async with desk(replace(ABLE, related=True)) as made:
        uri, client = await opened(
            made, at("/ws/templates/k.hip.j2", with_pattern(profile_with(line_figures(), COLUMN)))
        )
        client.before = at("/ws/templates/k.hip.j2", profile_with(line_figures(), ROW))
        words = "LDS conflict 1 → 32 ways since the last build"
        assert (await shown(made, uri))[1] == words
        worse, lost = made.session.information("/ws/templates/k.hip.j2")
        assert (worse.code, worse.severity, worse.message) == (
            "profile/worse", types.DiagnosticSeverity.Information, words,
        )  # fmt: skip
        (related,) = lost.related_information or ()
        assert related.message == pattern_of(PATTERN, reads=True)
        assert (related.location.uri, related.location.range) == (uri, lost.range)
        for against, since in (("baseline", "against the baseline"), ("baseline:v1", "against baseline:v1")):
            made.set(profile_against=against)
            assert (await shown(made, uri))[1] == f"LDS conflict 1 → 32 ways {since}"
            assert client.against == against


async def test_a_pattern_is_part_of_the_message_where_nothing_is_related() -> None:
    async with desk() as made:
        uri, _ = await opened(made, at("/ws/templates/k.hip.j2", with_pattern(profile_with(line_figures(), COLUMN))))
        await shown(made, uri)
        (lost,) = made.session.information("/ws/templates/k.hip.j2")
        assert lost.message.endswith(f". {pattern_of(PATTERN, reads=True)}")


async def test_a_loss_in_a_header_leads_there() -> None:
    async with desk(replace(ABLE, related=True)) as made:
        kernel = at("/ws/templates/k.hip.j2", profile_with(line_figures(), COLUMN))
        called, inner = kernel.lines
        inner = replace(inner, path="/ck/gemm.hpp", line=254, in_template=False)
        uri, _ = await opened(made, replace(kernel, lines=(called, inner), chains=((1, 0),)))
        await shown(made, uri)
        (lost,) = made.session.information("/ws/templates/k.hip.j2")
        (related,) = lost.related_information or ()
        assert (lost.range.start.line, related.message) == (0, "32-way LDS conflict")
        assert (related.location.uri, related.location.range.start.line) == ("file:///ck/gemm.hpp", 254)


def heat_of(made: Desk) -> list[list[tuple[int, int]]]:
    """Lines and levels of each notification."""
    told: list[Any] = [call[2] for call in made.editor.calls if call[:2] == ("notify", HEAT)]
    return [[(line["line"], line["level"]) for line in params["lines"]] for params in told]


async def test_heat_is_told_once_and_taken_away() -> None:
    async with desk(replace(ABLE, line_heat=True)) as made:
        cool, cold = line_figures(issued=6), line_figures(issued=1)
        uri, _ = await opened(made, at("/ws/templates/k.hip.j2", profile_with(line_figures(issued=193), cool, cold)))
        await shown(made, uri)
        await refreshed(made)
        assert heat_of(made) == [[(0, 4), (1, 2)]]
        await made.report(unit("one", phase="compiling", figures=figures()))
        await made.change(uri, "a line more\n" + TEXT)
        await refreshed(made)
        assert len(heat_of(made)) == 1
        made.set(profile=False)
        await refreshed(made)
        assert heat_of(made)[1:] == [[]]


async def test_a_lens_sums_it_up_and_opens_the_profile() -> None:
    async with desk() as made:
        uri, _ = await opened(made, at("/ws/templates/k.hip.j2", profile_with(line_figures(), COLUMN)))
        await shown(made, uri)
        title = "profile: 100 % of instructions in 2 lines; 32-way LDS conflict"
        assert title in (await made.lenses(uri))[2]
        assert await made.arguments(uri, title) == [{"uri": uri, "unit": "k/one@gfx942"}]


async def test_a_later_profile_of_a_device_is_shown_without_a_save() -> None:
    async with desk(replace(ABLE, line_heat=True)) as made:
        uri, client = await opened(made, at("/ws/templates/k.hip.j2", profile_with(line_figures(issued=193), ROW)))
        assert await shown(made, uri) == {0: "95 % of instructions"}
        await refreshed(made)
        before = len(made.editor.calls)
        client.kernel = at("/ws/templates/k.hip.j2", profile_with(line_figures(issued=40), COLUMN))
        await made.report(unit("one", figures=figures(), profiled_at=2.0))
        for _ in ("requested", "answered"):
            await refreshed(made)
        assert client.profiled == ["k/one@gfx942"] * 2
        assert await shown(made, uri) == {0: "80 % of instructions", 1: "32-way LDS conflict"}
        told = [call[:2] for call in made.editor.calls[before:]]
        assert {("refresh", "hints"), ("refresh", "lenses"), ("notify", HEAT)} <= set(told)


async def test_editors_are_refreshed_once_the_lines_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, gate = threading.Event(), threading.Event()

    def slow(found: UnitProfile, path: str) -> TemplateProfile:
        begun.set()
        assert gate.wait(PATIENCE_S)
        return template_profile(found, path)

    monkeypatch.setattr("ckwatch_lsp.figures.line_profiles.template_profile", slow)
    async with desk() as made:
        uri, _ = await opened(made, at("/ws/templates/k.hip.j2", profile_with(COLUMN)))
        (profiles,) = (one for one in made.session.listeners if isinstance(one, LineProfiles))
        await made.hints(uri)
        assert await anyio.to_thread.run_sync(begun.wait, PATIENCE_S)
        with anyio.fail_after(PATIENCE_S):
            while profiles._refresh_soon._given is not None:  # noqa: ASYNC110  # it has no event
                await anyio.sleep(0.01)
            gate.set()
            await answered(made)
        assert profiles._refresh_soon._given == {uri: None}


async def test_a_hover_has_the_instances_that_were_profiled() -> None:
    async with desk() as made:
        kernel = at("/ws/templates/k.hip.j2", profile_with(line_figures(), COLUMN))
        uri, client = await opened(made, kernel, ("two", "one"))
        document = made.session.documents[uri]
        for name in ("two", "one"):
            made.active.choose(document, made.folder.units[f"k/{name}@gfx942"])
            await made.settle()
            await shown(made, uri)
        rows = (await made.hover(uri, 1)).split("\n")
        assert [row.split()[0] for row in rows if row.startswith(("one ", "two "))] == ["one", "two"]
        assert client.profiled == ["k/two@gfx942", "k/one@gfx942"]
        assert await made.hover(uri, 2) == ""


async def test_without_what_cannot_be_compared_with() -> None:
    asked = []

    class Refusing:
        async def profile(self, _name: str, against: str | None = None) -> UnitProfile:
            asked.append(against)
            if against is not None:
                raise CkwatchError("no such unit")
            return profile(profile_with(COLUMN))

    found = await compared_profile(Refusing(), unit("one"), "k/gone")  # type: ignore[arg-type]  # it answers what is asked
    assert (found.against, asked) == ("", ["k/gone", None])


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


async def test_a_unit_that_was_just_built_anew_is_asked_about_again() -> None:
    async with desk() as made:
        uri, client = await opened(made, None)
        assert await shown(made, uri) == {}
        client.kernel = at("/ws/templates/k.hip.j2", profile_with(COLUMN))
        await made.report(unit("one", figures=figures(), generation=2))
        await made.settle()
        assert await shown(made, uri) == {0: "32-way LDS conflict"}
