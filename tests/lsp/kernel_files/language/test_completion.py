"""Completion at a place of a kernel file, and its order."""

from __future__ import annotations

import pytest

from ckwatch.wire.language import KeyDescription, ParameterDetail, ParameterValue
from ckwatch_lsp.kernel_files.language.completion import (
    CompletionFacts,
    KeyTable,
    complete,
    ghost_text,
    parameter_at,
)
from ckwatch_lsp.kernel_files.language.document import KernelFileText
from ckwatch_lsp.protocol.text_parts import CompletionCandidate
from helpers.each_row import each_row
from helpers.marked import marked

GEMM = {"operation.kind": "gemm"}
DTYPES = ('"f16"', '"bf16"')
KEYS = KeyTable(
    [
        KeyDescription(path="template", doc="the template", type="string", required=True),
        KeyDescription(path="name", doc="unique", type="string"),
        KeyDescription(path="archs", doc="archs", type="array of strings", values=('"gfx90a"', '"gfx942"')),
        KeyDescription(path="operation", doc="what", type="table", required=True),
        KeyDescription(path="operation.kind", doc="kind", type="string", values=('"gemm"', '"custom"'), required=True),
        KeyDescription(path="operation.a", doc="X", type="table", required=True, when=GEMM),
        KeyDescription(path="operation.a.dtype", doc="element", type="string", values=DTYPES, when=GEMM),
        KeyDescription(path="operation.a.same_as", doc="same", type="string", when=GEMM),
        KeyDescription(
            path="operation.split_k",
            doc="split",
            type="true or false",
            values=("true", "false"),
            default="false",
            when=GEMM,
        ),
        KeyDescription(path="operation.sizes", doc="sizes", type="array of strings", when={"operation.kind": "custom"}),
        KeyDescription(path="shape", doc="shapes", type="array of tables"),
        KeyDescription(path="shape.name", doc="name", type="string"),
        KeyDescription(path="shape.M", doc="rows", type="integer", required=True, when=GEMM),
        KeyDescription(path="defaults", doc="defaults", type="table"),
        KeyDescription(path="defaults.*", doc="parameter", type="anything"),
        KeyDescription(path="instance", doc="instance", type="array of tables"),
        KeyDescription(path="instance.name", doc="name", type="string", required=True),
        KeyDescription(path="instance.*", doc="parameter", type="anything"),
        KeyDescription(path="sweep", doc="sweep", type="array of tables"),
        KeyDescription(path="sweep.name", doc="name", type="string", required=True),
        KeyDescription(path="sweep.base", doc="base", type="string"),
        KeyDescription(path="sweep.where", doc="where", type="string or array of strings"),
        KeyDescription(path="sweep.parameters", doc="parameters", type="table", required=True),
        KeyDescription(path="sweep.parameters.*", doc="values", type="anything"),
        KeyDescription(path="sweep.derived", doc="derived", type="table"),
        KeyDescription(path="sweep.derived.*", doc="expression", type="string"),
    ]
)
PARAMETERS = (
    ParameterDetail(name="Tile", kind="integer"),
    ParameterDetail(name="Version", kind="string", values=('"v1"', '"v2"')),
    ParameterDetail(name="Other", kind="integer", default=""),
)
KNOWN = CompletionFacts(KEYS, ("a.hip.j2", "ck/b.hip.j2"), PARAMETERS)


def offered(text: str, known: CompletionFacts = KNOWN) -> list[CompletionCandidate]:
    plain, position = marked(text)
    return sorted(complete(KernelFileText(plain), position, known), key=lambda one: one.order)


@each_row(
    ("text", "labels"),
    [
        ("‸", ["template", "operation", "name", "archs", "defaults"]),
        ("name = 1\n‸\n[operation]\n", ["template", "archs", "defaults"]),
        ("[operation]\n‸", ["kind", "a", "split_k"]),
        ('[operation]\nkind = "custom"\n‸', ["sizes"]),
        ("[operation]\na = { ‸ }", ["dtype", "same_as"]),
        ('[operation]\na = { dtype = "f16", ‸ }', ["same_as"]),
        ('[operation.a]\ndtype = "f16"\n‸', ["same_as"]),
        ("[operation]\n‸\n[operation.a]\n", ["kind", "split_k"]),
        ("[[shape]]\n‸", ["M", "name"]),
        ("[[instance]]\n‸", ["name", "Tile", "Version", "Other"]),
        ("[defaults]\nTile = 1\n[[instance]]\n‸", ["name", "Version", "Other", "Tile"]),
        ("[defaults]\nVersion = 1\n‸", ["Tile", "Other"]),
        ("[[instance]]\nTile = 1\nVer‸ = 2", ["name", "Version", "Other"]),
        ("[[sweep]]\n‸\n[sweep.parameters]\n", ["name", "base", "where", "derived"]),
        ("[sweep.parameters]\nT‸", ["Tile", "Version", "Other"]),
        ("[sweep.derived]\nT‸", ["Tile", "Version", "Other"]),
        ("[nothing]\n‸", []),
        ("name = 1 ‸", []),
        ("# ‸", []),
        # values
        ("template = ‸", ["a.hip.j2", "ck/b.hip.j2"]),
        ('template = "ck/‸"', ["a.hip.j2", "ck/b.hip.j2"]),
        ("archs = ‸", []),
        ("archs = [‸]", ["gfx90a", "gfx942"]),
        ('archs = ["gfx90a", "‸"]', ["gfx90a", "gfx942"]),
        ("[operation]\nkind = ‸", ["gemm", "custom"]),
        ("[operation]\nsplit_k = ‸", ["false", "true"]),
        ('[operation]\na = { dtype = "‸" }', ["f16", "bf16"]),
        ("[operation]\na = { same_as = ‸ }", ["b", "bias"]),
        ('[[instance]]\nname = "i"\n[[sweep]]\nbase = ‸', ["i"]),
        ("[[instance]]\nVersion = ‸", ["v1", "v2"]),
        ("[[instance]]\nTile = ‸\n[[instance]]\nTile = 3\n[defaults]\nTile = 4\n", ["3", "4"]),
        ("[sweep.parameters]\nTile = ‸", []),
        ("[sweep.parameters]\nVersion = [‸]", ["v1", "v2"]),
        ('[[sweep]]\nwhere = "Ti‸ > 1"\n[sweep.parameters]\nVersion = [1]', ["Version", "Tile", "Other"]),
        ('[[sweep]]\n[sweep.parameters]\nVersion = [1]\n[sweep.derived]\nTile = "Ve‸"', ["Version", "Tile", "Other"]),
        # headers
        ("[‸", ["[operation]", "[operation.a]", "[[shape]]", "[defaults]", "[[instance]]", "[[sweep]]"]),
        ("[operation]\n[defaults]\n[[sweep]]\n[sw‸", ["[operation.a]", "[[shape]]", "[[instance]]", "[[sweep]]", "[sweep.parameters]", "[sweep.derived]"]),
    ],
)  # fmt: skip
def test_offers(text: str, labels: list[str]) -> None:
    assert [one.label for one in offered(text)] == labels


@pytest.mark.parametrize(
    ("text", "label", "result"),
    [
        ("[[instance]]\nTi‸", "Tile", "[[instance]]\nTile = "),
        ("[[instance]]\nTi‸ = 3", "Tile", "[[instance]]\nTile = 3"),
        ('template = "x‸y"', "a.hip.j2", 'template = "a.hip.j2"'),
        ("[operation]\nkind = g‸", "gemm", '[operation]\nkind = "gemm"'),
        ('archs = ["gfx90a", ‸]', "gfx942", 'archs = ["gfx90a", "gfx942"]'),
        ("[sw‸", "[[sweep]]", "[[sweep]]"),
        ('[[sweep]]\nwhere = "1 < Ti‸"', "Tile", '[[sweep]]\nwhere = "1 < Tile"'),
    ],
)
def test_what_is_taken_replaces_what_was_there(text: str, label: str, result: str) -> None:
    plain, _ = marked(text)
    file = KernelFileText(plain).toml
    chosen = next(one for one in offered(text) if one.label == label)
    assert chosen.range is not None
    start, end = file.offset(chosen.range.start), file.offset(chosen.range.end)
    assert plain[:start] + (chosen.text or chosen.label) + plain[end:] == result


def test_what_the_rules_refuse_comes_last() -> None:
    values = (
        ParameterValue(value=64, accepted=True),
        ParameterValue(value=[1, 2], accepted=True),
        ParameterValue(value=96, accepted=False, why_not="96 % 64 = 32", refused_by=("m-per-block",)),
    )
    found = offered("[[instance]]\nTile = 9‸", CompletionFacts(KEYS, (), PARAMETERS, values))
    assert [(one.label, one.refused) for one in found] == [("64", False), ("[1, 2]", False), ("96", True)]
    assert (found[2].detail, found[2].doc) == ("refused: m-per-block", "96 % 64 = 32")


@pytest.mark.parametrize(
    ("text", "parameter"),
    [
        ("[[instance]]\nTile = ‸1", "Tile"),
        ("[[instance]]\nname = ‸1", None),
        ('[[sweep]]\n[sweep.derived]\nTile = "‸"', None),
        ("[defaults]\nTile = [1, ‸2]", "Tile"),
        ("[sweep.parameters]\nTile = [‸]", "Tile"),
        ("[[instance]]\nTi‸le = 1", None),
        ("[[shape]]\nM = ‸1", None),
    ],
)
def test_the_parameter_that_is_being_given(text: str, parameter: str | None) -> None:
    plain, position = marked(text)
    assert parameter_at(KernelFileText(plain), position) == parameter


JUDGED = [
    ParameterValue(value=128, accepted=True, predicted_us=9.5),
    ParameterValue(value=256, accepted=False, refused_by=("lds",), predicted_us=1.0),
    ParameterValue(value=64, accepted=True, predicted_us=8.7),
    ParameterValue(value=16, accepted=True),
]


def test_values_are_ordered_by_rules_and_by_predicted_time() -> None:
    text, place = marked("[[instance]]\nname = 'a'\nTile = ‸")
    found = complete(KernelFileText(text), place, CompletionFacts(KEYS, values=JUDGED))
    shown = [(one.label, one.detail) for one in sorted(found, key=lambda one: one.order)]
    assert shown == [("64", "8.700 µs predicted"), ("128", "9.500 µs predicted"), ("16", ""), ("256", "refused: lds")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Tile = ‸", "64"),
        ("Tile =‸", " 64"),
        ("Tile = 1‸", "28"),
        ("Tile = 128‸", None),
        ("Tile = 9‸", None),
        ("Tile = ‸ 64", None),
        ("Tile = ‸  ", "64"),
        ("Ti‸", None),
        ("‸", None),
    ],
)
def test_ghost_text_is_the_rest_of_the_preferred_value(line: str, expected: str | None) -> None:
    text, place = marked(f"[[instance]]\nname = 'a'\n{line}\nOther = 1\n")
    values = JUDGED if line.startswith("Tile") else []
    assert ghost_text(KernelFileText(text), place, values) == expected
