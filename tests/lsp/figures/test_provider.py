"""Hints, lenses, hovers and messages in documents, with a daemon that says what the test wants."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from lsprotocol import types

from ckwatch_lsp.figures.provider import information, unit_messages
from lsp.figures.desk import ABLE, Desk, desk, lines
from lsp.figures.made_up import figures, timing, unit, verified

KERNEL_FILE = """\
template = "k.hip.j2"
[[instance]]
name = "one"
Tile = 1
[[instance]]
name = "two"
[[sweep]]
name = "s"
parameters = { Tile = [4, 8] }
"""
TEMPLATE = "int x;\n{% macro body(n) %}{% endmacro %}\nvoid {{ def_kernel(inputs=[X]) }} {}\n"
UNITS = (
    unit("one", timings=(timing(41.57),)),
    unit("two", figures=figures()),
    unit("s_4", timings=(timing(64.0),)),
    unit("s_8", phase="compiling", fresh=False),
)


async def opened(made: Desk) -> str:
    uri = made.open("k.kernel.toml", KERNEL_FILE)
    await made.report(*UNITS)
    return uri


async def shown(made: Desk, uri: str) -> dict[int, str]:
    return await made.hints(uri)


async def test_hints_stand_at_headers() -> None:
    async with desk() as made:
        uri = made.open("k.kernel.toml", KERNEL_FILE)
        assert await made.hints(uri) == {}
        await made.report(*UNITS)
        assert await shown(made, uri) == {
            1: "41.57 µs ±1.00 %  100 TFLOP/s  50 %",
            4: "occ 5  100 VGPR  1K LDS  0 spills  MFMA 50 %",
            6: "64.00 µs – 64.00 µs  1 of 2  s_4",
        }
        assert set(await made.hints(uri, 2, 5)) == {4}


async def test_hints_follow_edits_and_states() -> None:
    async with desk() as made:
        uri = await opened(made)
        await made.change(uri, "# a line more\n" + KERNEL_FILE.replace('"two"', '"twice"'))
        assert (await shown(made, uri)).keys() == {2, 7}
        await made.report(unit("one", timings=(timing(41.57, standing="stale"),)))
        assert (await shown(made, uri))[2] == "·41.57 µs ±1.00 %  100 TFLOP/s  50 %"
        await made.report(gone=["k/one@gfx942"])
        assert (await shown(made, uri)).keys() == {7}


async def test_the_active_instance_of_a_template() -> None:
    async with desk() as made:
        uri = made.open("templates/k.hip.j2", TEMPLATE)
        made.client.reading["/ws/templates/k.hip.j2"] = ["k/two@gfx942", "k/one@gfx942"]
        await made.report(*UNITS)
        assert await shown(made, uri) == {2: "occ 5  100 VGPR  1K LDS  0 spills  MFMA 50 %"}
        made.active.choose(made.session.documents[uri], UNITS[0])
        await made.settle()
        assert await shown(made, uri) == {2: "41.57 µs ±1.00 %  100 TFLOP/s  50 %"}
        assert await made.lenses(uri) == {
            1: ["affects 2 units"],
            2: ["run", "set baseline", "compare", "verify", "source", "ISA", "choose instance"],
        }
        assert (await made.hover(uri, 2, 10)).startswith("k/one@gfx942")
        assert await made.hover(uri, 2, 0) == ""
        assert await made.hover(uri, 0) == ""


async def test_the_choice_holds_when_the_document_is_opened_again() -> None:
    async with desk() as made:
        uri = await opened(made)
        made.active.choose(made.session.documents[uri], UNITS[1])
        made.session.closed(uri)
        await opened(made)
        active = made.active.unit(made.session.documents[uri])
        assert active is not None
        assert active.id == "k/two@gfx942"


async def test_an_included_file_says_what_it_affects() -> None:
    async with desk() as made:
        uri = made.open("templates/common.j2", "{# of all #}\n{% macro a() %}{% endmacro %}\n")
        made.client.reading["/ws/templates/common.j2"] = ["k/one@gfx942"]
        await made.report(*UNITS)
        assert await made.hints(uri) == {}
        assert await made.lenses(uri) == {0: ["affects 1 unit"], 1: ["affects 1 unit"]}
        assert await made.arguments(uri, "affects 1 unit") == [{"uri": uri}, {"uri": uri}]


async def test_lenses_offer_what_can_be_done() -> None:
    async with desk() as made:
        uri = await opened(made)
        assert await made.lenses(uri) == {
            0: ["run all", "rank"],
            1: ["run", "set baseline", "compare", "verify", "source", "ISA"],
            6: ["run", "cancel", "verify"],
        }
        assert await made.arguments(uri, "run all") == [{"uri": uri, "unit": "k/*"}]
        assert await made.arguments(uri, "run") == [
            {"uri": uri, "unit": "k/one@gfx942"},
            {"uri": uri, "unit": "k/s_*@gfx942"},
        ]


async def test_the_instance_with_the_cursor_has_lenses_in_their_order() -> None:
    async with desk() as made:
        uri = await opened(made)
        place = types.CodeActionParams(
            types.TextDocumentIdentifier(uri), lines(5, 5), types.CodeActionContext(diagnostics=[])
        )
        await made.answers.answer(types.TEXT_DOCUMENT_CODE_ACTION, place)
        assert (await made.lenses(uri))[4] == ["run", "verify", "source", "ISA"]
        assert 1 not in await made.lenses(uri)
        params = types.CodeLensParams(types.TextDocumentIdentifier(uri))
        found = await made.answers.answer(types.TEXT_DOCUMENT_CODE_LENS, params) or ()
        starts = [(lens.range.start.line, lens.range.start.character) for lens in found]
        assert starts == sorted(set(starts)), "an editor may order them by their places"
        # and with an edit
        await made.change(uri, KERNEL_FILE.replace('"one"', '"one" '))
        made.session.point(made.session.documents[uri], 2)
        await made.settle()
        assert 1 in await made.lenses(uri)
        assert ("refresh", "lenses") in made.editor.calls


SPACE = """\
[[shape]]
name = "square"
[[sweep]]
name = "space"
tune = true
parameters = { Tile = [4, 8] }
"""


async def test_a_space_is_tuned_and_has_no_figures() -> None:
    async with desk() as made:
        uri = made.open("k.kernel.toml", SPACE)
        assert await made.lenses(uri) == {0: ["tune"]}
        assert await made.hints(uri) == {}
        assert await made.hover(uri, 2) == ""
        assert await made.arguments(uri, "tune") == [{"uri": uri}]
        await made.change(uri, SPACE.replace("true", "false"))
        assert await made.lenses(uri) == {}


async def test_several_instances_are_tuned() -> None:
    async with desk() as made:
        uri = made.open("k.kernel.toml", KERNEL_FILE + SPACE)
        await made.report(UNITS[0])
        assert await made.lenses(uri) == {
            0: ["run all", "tune"],
            1: ["run", "set baseline", "compare", "verify", "source", "ISA"],
        }
        await made.report(*UNITS)
        assert (await made.lenses(uri))[0] == ["run all", "rank", "tune"]


async def test_hovers_answer_at_once_and_know_the_past_afterwards() -> None:
    async with desk() as made:
        made.client.past = [timing(50.0, taken_at=2.0), timing(60.0, taken_at=1.0)]
        uri = await opened(made)
        await made.report(unit("two", timings=(timing(50.0),)))
        assert "2 timings" not in await made.hover(uri, 4)
        await made.settle()
        assert "█▁ 2 timings, 50.00 µs to 60.00 µs" in await made.hover(uri, 4)
        asked = made.client.asked
        assert "2 timings" in await made.hover(uri, 5, 9)
        await made.settle()
        assert made.client.asked == asked, "what is known is not asked for again"
        assert await made.hover(uri, 0) == ""
        assert "2 instances, 1 timed" in await made.hover(uri, 6)


async def test_markdown_where_it_is_shown() -> None:
    async with desk(replace(ABLE, markdown=True)) as made:
        uri = await opened(made)
        assert "|---|" in await made.hover(uri, 1)


@pytest.mark.parametrize("channel", ["hints", "lenses", "hovers"])
async def test_channels_can_be_switched_off(channel: str) -> None:
    async with desk() as made:
        uri = await opened(made)
        made.set(**{channel: False})
        found = {"hints": await made.hints(uri), "lenses": await made.lenses(uri), "hovers": await made.hover(uri, 1)}
        assert {name for name, value in found.items() if not value} == {channel}
        made.set(**{channel: True})
        assert all((await made.hints(uri), await made.lenses(uri), await made.hover(uri, 1)))


async def test_another_shape() -> None:
    async with desk() as made:
        uri = await opened(made)
        await made.report(unit("one", timings=(timing(10.0, "a"), timing(20.0, "b"))))
        assert (await shown(made, uri))[1].startswith("10.00 µs")
        made.set(shape="b")
        assert (await shown(made, uri))[1].startswith("20.00 µs")


ONLY_TEXT = replace(ABLE, hints=False, refreshes_hints=False, lenses=False)


def messages(made: Desk, path: str) -> list[tuple[int, str, str]]:
    found = information(made.session, made.presenter, path)
    assert {each.severity for each in found} <= {types.DiagnosticSeverity.Information}
    return [(each.range.start.line, str(each.code), each.message) for each in found]


async def test_information_for_editors_with_neither_hints_nor_lenses() -> None:
    async with desk(ONLY_TEXT) as made:
        await opened(made)
        assert messages(made, "/ws/k.kernel.toml") == [
            (2, "figures/timing", "one on 4096: 41.57 µs ±1.00 %  100 TFLOP/s  50 %"),
            (5, "figures/resources", "two: 100 VGPR, 1000 B LDS"),
            (7, "figures/timing", "64.00 µs – 64.00 µs  1 of 2  s_4"),
        ]
        assert messages(made, "/ws/other.kernel.toml") == []
        made.set(information_diagnostics=False)
        assert messages(made, "/ws/k.kernel.toml") == []


async def test_information_where_it_is_wanted() -> None:
    async with desk() as made:
        await opened(made)
        assert messages(made, "/ws/k.kernel.toml") == []
        made.set(information_diagnostics=True)
        assert len(messages(made, "/ws/k.kernel.toml")) == 3
        await made.report(unit("one", timings=(timing(41.57, standing="stale"),)))
        assert messages(made, "/ws/k.kernel.toml")[0][2].endswith("50 % (stale)")


async def test_tooltips_come_when_they_are_asked_for() -> None:
    async with desk(replace(ABLE, resolved_tooltips=True)) as made:
        uri = await opened(made)
        params = types.InlayHintParams(types.TextDocumentIdentifier(uri), lines(0, 100))
        hints = await made.answers.answer(types.TEXT_DOCUMENT_INLAY_HINT, params)
        assert hints is not None
        assert [hint.tooltip for hint in hints] == [None] * 3
        resolve, _ = made.editor.requests[types.INLAY_HINT_RESOLVE]
        resolved = await resolve(hints[0])
        assert cast("types.MarkupContent", resolved.tooltip).value == await made.hover(uri, 1)


async def test_tooltips_at_once_for_others() -> None:
    async with desk() as made:
        uri = await opened(made)
        hints = await made.answers.answer(
            types.TEXT_DOCUMENT_INLAY_HINT, types.InlayHintParams(types.TextDocumentIdentifier(uri), lines(0, 100))
        )
        assert [cast("types.MarkupContent", hint.tooltip).value for hint in hints or ()] == [
            await made.hover(uri, line) for line in (1, 4, 6)
        ]


async def test_a_file_with_many_instances_has_few_lenses() -> None:
    async with desk() as made:
        count = 100
        text = "".join(f'[[instance]]\nname = "i{at}"\n' for at in range(count))
        uri = made.open("k.kernel.toml", text)
        await made.report(*(unit(f"i{at}") for at in range(count)))
        found = await made.lenses(uri)
        assert found == {0: ["run all", "rank", "run", "verify", "source", "ISA"]}


def test_an_editor_that_shows_one_message_of_a_line_shows_figures_and_verification() -> None:
    built = unit(figures=figures(), verification=verified())
    (code, message), *others = unit_messages(built)
    assert code == "figures/resources"
    assert message.endswith("; ✓ verified (emulated gfx942)")
    assert not others
    assert unit_messages(unit(verification=verified())) == [
        ("figures/verification", "one: ✓ verified (emulated gfx942)")
    ]
