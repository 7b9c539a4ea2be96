"""A compiler's suggestion becomes a fix where the user wrote the mistake, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

import ckwatch_templates
from ckwatch.checks.clang_output import byte_column, parse_clang_log
from ckwatch.checks.compiler.diagnose import diagnose
from ckwatch.checks.compiler.sources import NO_INPUTS, CompilerInputs
from ckwatch.model.compiler_flags import GivenFlag
from ckwatch.model.diagnostics import Diagnostic, Fix
from ckwatch.model.kernels import Unit
from ckwatch.model.source_map import SourceMap
from ckwatch.model.text import LineIndex, Span, span
from ckwatch.render.renderer import Renderer
from helpers.units import place, unit

SOURCE = "/w/kernel.hip"


def log_of(text: str) -> str:
    """Return clang's message on the first `Vect` in a rendered text."""
    at = LineIndex(text).position(text.index("Vect"))
    line = text.split("\n")[at.line]
    first, last = (byte_column(line, at.column + more) for more in (0, len("Vect")))
    reach = f"{{{at.line + 1}:{first}-{at.line + 1}:{last}}}"
    return (
        f"{SOURCE}:{at.line + 1}:{first}:{reach}: error: unknown type name 'Vect'; did you mean 'Vec'? [Semantic Issue]\n"
        f'fix-it:"{SOURCE}":{reach}:"Vec"\n'
    )


def rendered(folder: Path, subject: Unit, files: dict[str, str]) -> SourceMap:
    for name, text in files.items():
        (folder / name).write_text(text)
    found = Renderer((folder,)).render(subject).rendered
    assert found is not None
    return found.source_map


def diagnosed(
    source_map: SourceMap,
    log: str,
    subject: Unit,
    inputs: CompilerInputs = NO_INPUTS,
    headers: dict[str, str] | None = None,
) -> Diagnostic:
    def read_line(path: str, line: int) -> str | None:
        lines = (headers or {}).get(path, "").split("\n")
        return lines[line] if line < len(lines) else None

    (found,) = diagnose(
        parse_clang_log(log),
        unit=subject,
        source_path=SOURCE,
        source_map=source_map,
        read_line=read_line,
        inputs=inputs,
    )
    return found


def fixed(fix: Fix) -> str:
    """The file at which a fix lies, with it."""
    text = Path(fix.span.path).read_text()
    lines = LineIndex(text)
    return text[: lines.offset(fix.span.start)] + fix.text + text[lines.offset(fix.span.end) :]


MACRO = "{% macro use(name) %}/* ü𝄞 */ «Vect» {{ name }};{% endmacro %}"


@pytest.mark.parametrize(
    "files",
    [
        {"t.hip.j2": "struct Vec {};\n«Vect» v;\n"},
        {"t.hip.j2": '{% include "part.j2" %}', "part.j2": "\n  «Vect» v;\n"},
        {"t.hip.j2": '{% extends "base.j2" %}{% block body %}«Vect» v;{% endblock %}', "base.j2": "{% block body %}{% endblock %}"},
        {"t.hip.j2": '{% import "m.j2" as m %}\n{{ m.use("v") }}', "m.j2": MACRO},
        {"t.hip.j2": '{% from "m.j2" import use %}{{ use("v") }}', "m.j2": MACRO},
        {"t.hip.j2": "{% for i in [1, 2] %}{% if i > 1 %}«Vect» v;{% endif %}{% endfor %}"},
        {"t.hip.j2": "{% set line %}\n«Vect» v;\n{% endset %}{{ line | indent(4) | trim }}"},
        {"t.hip.j2": "{{ Tile }} {% filter trim %} «Vect» v; {% endfilter %}"},
    ],
)  # fmt: skip
def test_in_templates(files: dict[str, str], tmp_path: Path) -> None:
    subject = unit("t.hip.j2", Tile=1)
    plain = {name: text.replace("«", "").replace("»", "") for name, text in files.items()}
    source_map = rendered(tmp_path, subject, plain)
    (fix,) = diagnosed(source_map, log_of(source_map.text), subject).fixes
    name = Path(fix.span.path).name
    assert fixed(fix) == files[name].replace("«Vect»", "Vec")
    assert rendered(tmp_path, subject, {**plain, name: fixed(fix)}).text == source_map.text.replace("Vect", "Vec")


@pytest.mark.parametrize(
    "text",
    [
        "Vec{{ 't' }} v;",
        "{{ 'Vec' ~ 't' }} v;",
        '{% filter replace("Q", "t") %}VecQ v;{% endfilter %}',
        "{{ 'tceV' | reverse }} v;",
    ],
)
def test_nothing_is_offered_for_what_was_made(text: str, tmp_path: Path) -> None:
    subject = unit("t.hip.j2")
    source_map = rendered(tmp_path, subject, {"t.hip.j2": text})
    assert "Vect" in source_map.text
    assert diagnosed(source_map, log_of(source_map.text), subject).fixes == ()


def test_a_built_in_template_is_not_edited(tmp_path: Path) -> None:
    subject = unit("t.hip.j2")
    source_map = rendered(tmp_path, subject, {"t.hip.j2": "Vect v;\n"})
    for folder, count in ((str(tmp_path), 0), (str(ckwatch_templates.ROOT), 1)):
        inputs = CompilerInputs(built_in=folder)
        assert len(diagnosed(source_map, log_of(source_map.text), subject, inputs).fixes) == count


def test_a_name_that_a_parameter_gives_is_mended_there(tmp_path: Path) -> None:
    subject = unit("t.hip.j2", Type="Vect", Tile=1)
    source_map = rendered(tmp_path, subject, {"t.hip.j2": "{{ Type }} v; {{ Tile }}\n"})
    found = diagnosed(source_map, log_of(source_map.text), subject)
    assert (found.span, found.fixes) == (place(10), (Fix(place(10), '"Vec"'),))
    source_map = rendered(tmp_path, subject, {"t.hip.j2": "{{ Type }}or v; {{ Tile }}\n"})
    assert diagnosed(source_map, log_of(source_map.text).replace("Vect'", "Vector'"), subject).fixes == ()


OWN = "/ws/include/own.h"
HEADER = "struct Own {};\n/* ü */ Ownn o;\n"


@pytest.mark.parametrize(("folders", "count"), [(("/ws",), 1), ((), 0)])
def test_in_an_own_header(folders: tuple[str, ...], count: int, tmp_path: Path) -> None:
    subject = unit("t.hip.j2")
    source_map = rendered(tmp_path, subject, {"t.hip.j2": '#include "own.h"\n'})
    log = (
        f"In file included from {SOURCE}:1:\n"
        f"{OWN}:2:10:{{2:10-2:14}}: error: unknown type name 'Ownn'; did you mean 'Own'? [Semantic Issue]\n"
        f'fix-it:"{OWN}":{{2:10-2:14}}:"Own"\n'
    )
    found = diagnosed(source_map, log, subject, CompilerInputs(folders=folders), {OWN: HEADER})
    assert found.fixes == (Fix(span(OWN, 1, 8, 1, 12), "Own"),) * count


TEXT = "#define USE(x) (x + lds_byte)\nint a = USE(1);\nint b = lds_byte + v.xx;\n"
UNDECLARED = "use of undeclared identifier 'lds_byte'; did you mean 'lds_bytes'?"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        # clang has no fix-its within macros
        (
            f"2:9:{{2:9-2:12}}: error: {UNDECLARED} [Semantic Issue]\n{SOURCE}:1:21: note: expanded from macro 'USE'\n",
            (0, 20, 28, "lds_bytes"),
        ),
        # gcc, which nvcc calls, is not asked for any
        ("3:9: error: ‘lds_byte’ was not declared in this scope; did you mean ‘lds_bytes’?", (2, 8, 16, "lds_bytes")),
        ("3:22: error: ‘struct Vec’ has no member named ‘xx’; did you mean ‘x’?", (2, 21, 23, "x")),
        ("3:9: error: no member named 'xx' in 'Vec'; did you mean 'x'?", None),
        ("3:9: error: use of undeclared identifier 'lds_byte'", None),
    ],
)  # fmt: skip
def test_words_without_a_fix_it(log: str, expected: tuple[int, int, int, str] | None, tmp_path: Path) -> None:
    subject = unit("t.hip.j2")
    source_map = rendered(tmp_path, subject, {"t.hip.j2": TEXT})
    found = diagnosed(source_map, f"{SOURCE}:{log}", subject)
    path = str(tmp_path / "t.hip.j2")
    if expected is None:
        assert found.fixes == ()
    else:
        line, start, end, new = expected
        assert found.fixes == (Fix(span(path, line, start, line, end), new),)


@pytest.mark.parametrize(
    ("flag", "log", "expected"),
    [
        ("-ffast-maths", "clang++: error: unknown argument '-ffast-maths'; did you mean '-ffast-math'?", '"-ffast-math"'),
        ("-Wno-unusde", "error: unknown warning option '-Wno-unusde'; did you mean '-Wno-unused'? [-Werror,-Wunknown-warning-option]", '"-Wno-unused"'),
        ("-fnope", "clang++: error: unknown argument: '-fnope'", None),
    ],
)  # fmt: skip
def test_flags(flag: str, log: str, expected: str | None, tmp_path: Path) -> None:
    subject = unit("t.hip.j2")
    at: Span = span("/ws/ckwatch.toml", 1, 9, 1, 20)
    source_map = rendered(tmp_path, subject, {"t.hip.j2": "int x;\n"})
    found = diagnosed(source_map, log, subject, CompilerInputs((GivenFlag(flag, at),)))
    assert found.fixes == (() if expected is None else (Fix(at, expected),))
