"""A kernel file is read however broken it is: no question about one raises."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import ckwatch
from ckwatch.model.text import Position
from ckwatch_lsp.kernel_files.language.document import KernelFileText, cursor_context
from ckwatch_lsp.kernel_files.language.outline import folds, highlights, selections, symbols

EXAMPLES = Path(ckwatch.__file__).parents[2] / "examples"
FILES = {str(path.relative_to(EXAMPLES)): path.read_text() for path in sorted(EXAMPLES.rglob("*.toml"))}


def ask_everywhere(text: str) -> None:
    document = KernelFileText(text)
    symbols(document.toml)
    folds(document.toml)
    list(document.parameter_pairs())
    lines = text.split("\n")
    places = {
        Position(line, column)
        for line in range(0, len(lines) + 2, max(1, len(lines) // 7))
        for column in (0, 3, 17, 1000)
    }
    for place in places:
        spot = cursor_context(document.toml, place)
        assert spot.range.start <= spot.range.end
        around = selections(document.toml, place)
        assert all(outer.covers(inner) for inner, outer in pairwise(around))
        highlights(document, place)
        document.instance_at(place)
        document.sweep_at(place)


@given(st.sampled_from(sorted(FILES)), st.data())
@settings(max_examples=60, deadline=None)
def test_prefixes_and_mutations_are_read(name: str, data: st.DataObject) -> None:
    text = FILES[name]
    cut = data.draw(st.integers(0, len(text)))
    removed = data.draw(st.integers(0, 30))
    added = data.draw(st.text("[]{}=\"'#\n\r,.ab1 \\ü", max_size=6))
    kept = data.draw(st.sampled_from([text[cut + removed :], ""]))
    ask_everywhere(text[:cut] + added + kept)


@given(st.text("[]{}=\"'#\n\r,.ab1 \\-\tü\0", max_size=60))
@settings(max_examples=150, deadline=None)
def test_any_text_is_read(text: str) -> None:
    ask_everywhere(text)


def test_deep_arrays_end() -> None:
    ask_everywhere("a = " + "[" * 5000)
    ask_everywhere("a = " + "{ b = " * 5000)
