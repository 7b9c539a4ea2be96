"""Places of a name that a rename would leave behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.cpp.renaming import left_behind
from ckwatch.model.text import LineIndex, Range
from helpers.rendered_sources import rendered_source

ROWS = [
    # template (edits are between « and »), what is said
    ("int «f»;\nint a = «f»;\n", None),
    (
        "int «f»;\n{% if not Name %}\nint a = f;\n{% endif %}\n",
        "`f` also stands at k.cpp.j2:3:9, which this instance does",
    ),
    ("int «f»;\n{% if not Name %}\nint ff = f_;\n{% endif %}\n", None),
    ("int «f»;{% macro unused() %}f{% endmacro %}\n", "`f` also stands at k.cpp.j2:1:27, which this instance does"),
    # what is rendered and left alone is another f
    ("int «f»;\nstruct s { int f; };\n", None),
    # Jinja's own words, comments and strings
    ("int «f»;\n{% if f is defined %}{{ f }}{% endif %}{# f #}\n", None),
    ("int «f»;\n{% if not Name %}// f\n/* f\n f */ \"f\" 'f'\n{% endif %}\n", None),
    ("int «f»;\n{% if not Name == '%}' %}f{% endif %}\n", None),
    ('int «f»;\n{% if not Name %}"\\"f" \'"\' f{% endif %}\n', "`f` also stands at k.cpp.j2:2:28"),
    ("int «f»;\n{% if not Name %}{% raw %}{{ f }}{% endraw %}{% endif %}\n", "`f` also stands at k.cpp.j2:2:30"),
    ("int «f»;\n{%- raw -%} {{ «f» }} {%- endraw %}\n", None),
    ("int «f»;\r\n{% if not Name %}\r\nint a = f;\r\n{% endif %}\r\n", "`f` also stands at k.cpp.j2:3:9"),
]


@pytest.mark.parametrize(("template", "said"), ROWS)
def test_what_is_left_behind(template: str, said: str | None, tmp_path: Path) -> None:
    text = template.replace("«", "").replace("»", "")
    source = rendered_source(tmp_path, {"k.cpp.j2": text}, Name="tile")
    normal = text.replace("\r\n", "\n")
    lines = LineIndex(normal)
    marks = template.replace("\r\n", "\n")
    starts = [at - 2 * number for number, at in enumerate(found for found, one in enumerate(marks) if one == "«")]
    edits: list[Range] = [lines.range(start, start + 1) for start in starts]
    found = left_behind("f", str(tmp_path / "k.cpp.j2"), normal, edits, source, ())
    assert (found is None) if said is None else (found or "").startswith(said)


def test_what_the_preprocessor_passes_over(tmp_path: Path) -> None:
    text = "int f;\n#ifdef X\nint a = f;\n#endif\n"
    source = rendered_source(tmp_path, {"k.cpp.j2": text})
    lines = LineIndex(source.text)
    path = str(tmp_path / "k.cpp.j2")
    edits = [lines.range(4, 5)]
    skipped = [lines.range(text.index("int a"), text.index("#endif") - 1)]
    assert left_behind("f", path, text, edits, source, ()) is None
    said = left_behind("f", path, text, edits, source, skipped)
    assert said == "`f` also stands at k.cpp.j2:3:9, which the preprocessor passes over"


@pytest.mark.parametrize("text", ["{{ '", '{% "', "{# f", "/* f", '"f', "{% raw %} f"])
def test_what_is_never_closed(text: str, tmp_path: Path) -> None:
    """The text of the moment may be anything; this ends all the same."""
    source = rendered_source(tmp_path, {"k.cpp.j2": ""})
    found = left_behind("f", str(tmp_path / "k.cpp.j2"), text + " '\"' " * 2000, [], source, ())
    assert found is None or found.startswith("`f` also stands at k.cpp.j2:1:")
