"""The view *Profile*: a profile by lines and instructions, which lead to each other, and by functions."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

from cases.web_rows import HOSTILE, feed_of, unit_row
from ckwatch import CkwatchError
from ckwatch.codeobject.profile_changes import changes_of
from ckwatch.codeobject.profile_hints import hints_of
from ckwatch.model.profiles import KernelProfile, ProfiledStack
from ckwatch.wire.analysis import UnitProfile
from ckwatch_web.content import LINKS, PLACE, Action, Choice, Content, Plot, Table
from ckwatch_web.views import profile
from ckwatch_web.views.profile import HOTTEST, MOST_KEPT, flame_plot, instruction_table, kept_profiles, source_table
from codeobject.test_profile import figures, product_profile, profile_with

ONE, TWO = "k/one@gfx942", "k/two@gfx942"
CONFLICT = figures(issued=10, lanes=640, accesses=10, turns=640, phases=20, fullest=32)


class ProfilingClient:
    """Answers with a profile of `kernels`; `asked` are the launches that an emulator would execute."""

    def __init__(self, *kernels: KernelProfile) -> None:
        self.kernels = kernels
        self.asked: list[tuple[str, str | None, str | None]] = []

    async def analysis(self, unit: str) -> Any:
        raise CkwatchError(f"'{unit}' is not built")

    async def profile(self, unit: str, shape: str | None = None, *, against: str | None = None) -> UnitProfile:
        """Another unit has no conflicts, and neither a previous build nor a baseline was profiled."""
        self.asked.append((unit, shape, against))
        before = (profile_with(figures(accesses=10, turns=20, phases=20)),) if against == TWO else ()
        return UnitProfile(unit=unit, artifact_key="abc", device="emulated:gfx942", shape="M=64", shape_name="small",
                           kernels=self.kernels, hints=hints_of(self.kernels), executed=7,
                           against=against or "" if before else "",
                           changes=changes_of(before, self.kernels) if before else ())  # fmt: skip


def named(content: Content) -> dict[str, Any]:
    return {block.key: block for block in content.blocks}


def links(table: Table) -> dict[str, set[str]]:
    """By row the words that it has in common with others."""
    return {str(row["id"]): set(str(row.get(LINKS) or "").split()) for row in table.rows}


def test_a_line_leads_to_the_instructions_that_it_called() -> None:
    """To so many that their issues are the line's, and back."""
    kernel = product_profile()
    source, instructions = source_table(kernel, ONE, {}, HOTTEST), instruction_table(kernel, ONE)
    assert (source.beside, instructions.beside) == (instructions.key, source.key)
    called = links(instructions)
    issued = {str(row["id"]): row["issued"] for row in instructions.rows}
    for row in source.rows:
        at = int(str(row[LINKS]))
        led_to = [name for name, words in called.items() if str(at) in words]
        assert sum(int(str(issued[name])) for name in led_to) == kernel.lines[at].total.counts.issued
    own = [str(row[LINKS]).split()[0] for row in instructions.rows if row[LINKS]]
    assert own == [str(one.at) for one in kernel.instructions if one.at is not None], "its own line comes first"


def test_shares_are_those_of_the_profile() -> None:
    kernel = product_profile()
    rows = instruction_table(kernel, ONE).rows
    assert sum(float(str(row["share"])) for row in rows) == pytest.approx(100, abs=0.01 * len(rows))
    template = [row for row in source_table(kernel, ONE, {}, HOTTEST).rows if row["file"] == "product.hip.j2"]
    shares = [float(str(row["share"])) for row in template]
    assert shares == sorted(shares, reverse=True)


def test_all_lines_of_a_text_are_there_with_what_was_counted_at_them() -> None:
    kernel = profile_with(figures(), CONFLICT)
    rows = source_table(kernel, ONE, {"/w/k.hip.j2": ["a", HOSTILE, "c"]}, "/w/k.hip.j2").rows
    assert [(row["line"], row["text"], row.get("ways"), row[PLACE]) for row in rows] == [
        ("1", "a", None, "/w/k.hip.j2:1:1"), ("2", HOSTILE, 32, "/w/k.hip.j2:2:1"), ("3", "c", None, "/w/k.hip.j2:3:1"),
    ]  # fmt: skip
    assert LINKS not in rows[2]
    unread = source_table(kernel, ONE, {}, "/w/k.hip.j2").rows
    assert [(row["line"], row["text"]) for row in unread] == [("1", ""), ("2", "")]


def test_functions_are_drawn_within_their_callers() -> None:
    stacks = (ProfiledStack(("f", "g"), 60), ProfiledStack(("f",), 30), ProfiledStack(("f", HOSTILE), 9),
              ProfiledStack(("h",), 1))  # fmt: skip
    whole = profile_with(figures())
    plot = flame_plot(KernelProfile(**{**{key: getattr(whole, key) for key in whole.__slots__}, "stacks": stacks}))
    boxes = plot.option["series"][0]["data"]
    assert [(*box["value"][:3], box["value"][4]) for box in boxes] == [
        (0, 99, 0, "f"), (0, 60, 1, "g"), (60, 69, 1, HOSTILE), (99, 100, 0, "h"),
    ]  # fmt: skip
    assert boxes[0]["text"] == "f\n99 instructions (99.0 %), 30 of them its own"
    assert "Most by itself: g, 60.0 %" in plot.summary


def test_the_flames_of_a_profile_are_all_its_issues() -> None:
    kernel = product_profile()
    boxes = flame_plot(kernel).option["series"][0]["data"]
    widths = Counter[int]()
    for begin, end, depth, *_ in (box["value"] for box in boxes):
        widths[depth] += end - begin
    assert widths[0] == kernel.total.counts.issued
    assert all(widths[depth] >= widths[depth + 1] for depth in widths)


async def test_showing_executes_nothing_and_profiles_are_kept_for_all_windows() -> None:
    client = ProfilingClient(profile_with(figures(), CONFLICT))
    feed = feed_of(unit_row(ONE, generation=1), unit_row(TWO), client=client)
    before = profile.depends(feed, {"unit": ONE})
    content = await profile.show(feed, {"unit": ONE})
    assert [(one.label, one.changes) for one in content.blocks if isinstance(one, Action)] == [
        ("Profile the unit", False)
    ]
    assert (client.asked, content.tables) == ([], [])
    said = await profile.profile(feed, {"unit": ONE, "shape": "M=64"})
    assert said == f"{ONE}: 7 instructions, counted (emulated gfx942)"
    assert client.asked == [(ONE, "M=64", None)]
    assert profile.depends(feed, {"unit": ONE}) != before
    shown = named(await profile.show(feed, {"unit": ONE, "shape": "M=64"}))
    assert [key for key in shown if isinstance(shown[key], Table | Plot)] == ["lost", "source", "instructions", "flame"]
    assert shown["counted"].text.startswith("Counted (emulated gfx942): counts are exact")
    assert "old" not in shown
    assert [row["text"] for row in shown["lost"].rows] == ["32-way LDS conflict"]
    for row in (unit_row(ONE, generation=2), unit_row(ONE, generation=1, profiled_at=time.time() + 1)):
        feed.units[ONE] = row
        assert "old" in named(await profile.show(feed, {"unit": ONE, "shape": "M=64"}))
    assert "lost" not in named(await profile.show(feed, {"unit": ONE})), "that of another shape is another profile"


async def test_what_differs_from_another_unit() -> None:
    client = ProfilingClient(profile_with(CONFLICT))
    feed = feed_of(unit_row(ONE), unit_row(TWO), unit_row("k/host@host"), client=client)
    query = {"unit": ONE, "against": TWO}
    await profile.profile(feed, query)
    assert client.asked == [(ONE, None, TWO)]
    shown = named(await profile.show(feed, query))
    assert isinstance(shown["against"], Choice)
    assert list(shown["against"].options) == ["nothing", "previous", "baseline", TWO], "none that is not emulated"
    (row,) = shown["changes"].rows
    assert "LDS conflict 1 → 32 ways" in row["text"]
    assert (row["worse"], row[PLACE]) == (True, "/w/k.hip.j2:1:1")
    assert "changes" not in named(await profile.show(feed, {"unit": ONE}))


async def test_a_unit_that_is_not_emulated_says_so() -> None:
    client = ProfilingClient(profile_with(CONFLICT))
    feed = feed_of(unit_row("k/host@host"), client=client)
    assert await profile.profile(feed, {}) == "k/host@host is not profiled: host is not emulated"
    assert client.asked == []
    assert list(named(await profile.show(feed, {}))) == ["unit", "not"]


async def test_counts_of_ncu_are_shown() -> None:
    unit = "k/one@sm_90a"
    feed = feed_of(unit_row(unit), client=ProfilingClient(profile_with(CONFLICT)))
    assert "ncu counted" in named(await profile.show(feed, {}))["how"].text
    assert await profile.profile(feed, {})
    assert "lost" in named(await profile.show(feed, {}))


async def test_an_earlier_build_that_was_not_profiled_is_said_to_be_none() -> None:
    feed = feed_of(unit_row(ONE), client=ProfilingClient(profile_with(CONFLICT)))
    await profile.profile(feed, {"against": "previous"})
    changes = named(await profile.show(feed, {"against": "previous"}))["changes"]
    assert (changes.rows, changes.empty) == ((), "that was not profiled on this shape")


async def test_of_several_kernels_the_largest_is_shown_first() -> None:
    feed = feed_of(unit_row(ONE), client=ProfilingClient(profile_with(figures(issued=1)), profile_with(figures())))
    await profile.profile(feed, {})
    shown = named(await profile.show(feed, {}))
    assert shown["part"].value == "1"
    assert ("instructions", "100") in shown["kernel"].facts
    shown = named(await profile.show(feed, {"part": "0"}))
    assert ("instructions", "1") in shown["kernel"].facts


async def test_the_last_profiles_are_kept() -> None:
    feed = feed_of(unit_row(ONE), client=ProfilingClient(profile_with(figures())))
    for at in (*range(MOST_KEPT + 2), 3):
        await profile.profile(feed, {"shape": f"M={at}"})
    assert [shape for _, shape, _ in kept_profiles(feed)] == [f"M={at}" for at in (2, 4, 5, 6, 7, 8, 9, 3)]
    with pytest.raises(CkwatchError, match="no such unit"):
        await profile.profile(feed_of(), {})
    assert (await profile.show(feed_of(), {})).tables == []
