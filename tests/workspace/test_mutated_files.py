"""Whatever a file says, loading it raises nothing, and every message lies inside a file."""

from __future__ import annotations

import random
import tempfile
import tomllib
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ckwatch.model.diagnostics import Source
from ckwatch.model.text import LineIndex, Position, Span
from ckwatch.workspace.loading import Workspace, load_workspace
from ckwatch.workspace.toml_document import TomlDocument
from helpers.workspaces import KERNEL, TEMPLATE

VALID = "archs = ['gfx942']\nflags = ['-DX=1'] # größe\n" + KERNEL.replace(
    "[[instance]]", "bias.dtype = 'f16'\n[[instance]]"
)
VALID += """
[defaults]
Lengths = [4, 64, 1]
[[shape]]
M = 4
N = 4
K = 4
[[sweep]]
name = "s"
base = "first"
where = ["MPerBlock >= NPerBlock", 'Lengths[0] * 2 == 8']
[sweep.parameters]
NPerBlock = [64, 128]
MPerBlock = [
  128, 256,
]
"""

SETTINGS = """[workspace]
archs = ["gfx942"]
kernels = ["*.kernel.toml"]
[compile]
defines = { A = 1 }
[limits]
combinations = 1000
"""

PIECES = st.sampled_from(
    [
        *("[", "]", "[[", "{", "}", "=", '"', "'", '"""', "'''", "\n", "\r", "\r\n", "\t", ",", ".", "#", "\\", " "),
        *("\ufeff", "é", "\u2028", "\x00", "\x0b", "😀", "\ud800", "name", "[[instance]]\n", "[sweep.parameters]\n"),
        *("1979-05-27", "07:32:00", "nan", "-inf", "1e999", "0x1F", "99999999999999999999", "true", "[[[[1]]]]"),
        *("same_as = 'a'", "kind = 'custom'", "where = 'x'", "9" * 5000, "{}", "[]", "operation.a.b.c = 1\n"),
    ]
)


@st.composite
def mutated(draw: st.DrawFn, text: str) -> str:
    """`text` with a few characters removed, pieces inserted, lines moved or doubled."""
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        match draw(st.integers(0, 3)):
            case 0:
                text = text[:at] + text[at + draw(st.integers(1, 12)) :]
            case 1:
                text = text[:at] + draw(PIECES) + text[at:]
            case 2:
                lines = text.splitlines(keepends=True)
                lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(lines)) if lines else "")
                text = "".join(lines)
            case _:
                lines = text.splitlines(keepends=True)
                random.Random(at).shuffle(lines)  # noqa: S311  # drawn by hypothesis
                text = "".join(lines)
    return text


def inside(span: Span, texts: dict[str, str]) -> bool:
    text = texts[span.path].removeprefix("\ufeff")
    lines = LineIndex(text)

    def held(position: Position) -> bool:
        return lines.position(lines.offset(position)) == position

    return span.start <= span.end and held(span.start) and held(span.end)


def load(kernel: str, toml: str) -> Workspace:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        texts = {str(root / "k.kernel.toml"): kernel, str(root / "ckwatch.toml"): toml}
        overlays = texts | {str(root / "templates/t.hip.j2"): TEMPLATE}
        (root / "templates").mkdir()
        found = load_workspace(root, overlays=overlays)
        for diagnostic in found.diagnostics:
            places = [
                diagnostic.span,
                *(one.span for one in diagnostic.related),
                *(fix.span for fix in diagnostic.fixes),
            ]
            assert all(inside(span, texts) for span in places if span is not None), diagnostic
        for kernel_found in found.kernels:
            spans = [instance.span for instance in kernel_found.instances]
            spans += [span for instance in kernel_found.instances for span in instance.spans.values()]
            assert all(inside(span, texts) for span in spans)
            assert all(instance.spans.keys() == instance.parameters.keys() for instance in kernel_found.instances)
        return found


def test_the_text_that_is_mutated_is_valid() -> None:
    found = load(VALID, SETTINGS)
    assert found.diagnostics == ()
    assert [instance.name for instance in found.kernels[0].instances] == [
        "first",
        "s_64_128",
        "s_64_256",
        "s_128_128",
        "s_128_256",
    ]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutated(VALID))
def test_kernel_files(text: str) -> None:
    load(text, SETTINGS)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutated(SETTINGS))
def test_settings(text: str) -> None:
    load(VALID, text)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.sampled_from("[]{}=.\"'\\\n\r\t#, aé1-_:T\x00"), max_size=60))
def test_any_text(text: str) -> None:
    document = TomlDocument("/f", text, Source.KERNEL_FILE)
    assert all(inside(one.span, {"/f": text}) for one in document.diagnostics)
    try:
        values = tomllib.loads(text)
    except ValueError:
        assert document.diagnostics
    else:
        assert (document.values, document.diagnostics) == (values, ())
