"""Rendering: the text of plain Jinja2, and a map that is exact to line and column."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jinja2 import DictLoader, StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

import ckwatch_templates
from ckwatch.model.source_map import Origin, SourceMap
from ckwatch.model.text import Position
from ckwatch.render.outcome import Rendered, RenderLimits, RenderOutcome
from ckwatch.render.renderer import Renderer
from helpers.units import gemm, tensor, unit


def render(folder: Path, files: dict[str, str]) -> RenderOutcome:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    first = next(iter(files))
    return Renderer((folder, ckwatch_templates.ROOT)).render(unit(first, MPerBlock=128, NPerBlock=64))


def rendered(folder: Path, files: dict[str, str]) -> Rendered:
    outcome = render(folder, files)
    assert outcome.rendered is not None, outcome.diagnostics
    return outcome.rendered


def origin_of(result: Rendered, piece: str) -> Origin:
    at = result.text.index(piece)
    origin = result.source_map.origin_of_range(at, at + len(piece))
    assert origin is not None
    return origin


def where(folder: Path, origin: Origin) -> str:
    span = origin.span
    chain = "".join(
        f" < {link.site.label.splitlines()[0]}{f' #{link.iteration}' if link.iteration >= 0 else ''}"
        for link in origin.chain
    )
    return f"{Path(span.path).relative_to(folder)}:{span.start}-{span.end}{chain}"


MACROS = "{% macro store(what, n) %}\nst_{{ what }}({{ n }});\n{% endmacro %}\n"

MAPPED = [
    # (main template, piece of the output, where it came from)
    ("int a = 1;\n", "a =", "main.hip.j2:1:5-1:8"),
    ("é😀 {{ MPerBlock }} x\n", "128", "main.hip.j2:1:4-1:19"),
    ("é😀 {{ MPerBlock }} x\n", " x", "main.hip.j2:1:19-1:21"),
    ("a\r\n  b {{ 1 + 1 }}\r\nc", "c", "main.hip.j2:3:1-3:2"),
    ("a\n  {%- if true %}  b{% endif %}", "b", "main.hip.j2:2:19-2:20"),
    ("a {{- ' x' -}}   \n  b", "b", "main.hip.j2:2:3-2:4"),
    ("{% raw %}{{ no }}{% endraw %}", "no", "main.hip.j2:1:13-1:15"),
    ("{# c\n #}z", "z", "main.hip.j2:2:4-2:5"),
    ("{% for i in [5, 6] %}\n<{{ i }}>{% endfor %}", "6", "main.hip.j2:2:2-2:9 < for i in [5, 6] #1"),
    ("{% for i in [] %}x{% endfor %}y", "y", "main.hip.j2:1:31-1:32"),
    ("{% for i in [1, 2, 3] if i > 1 %}<{{ i }}>{% else %}n{% endfor %}", "3", "main.hip.j2:1:35-1:42 < for i in [1, 2, 3] if i > 1 #1"),
    ("{% include 'inc.j2' %}!", "inc", "inc.j2:1:1-1:4 < include 'inc.j2'"),
    ("{% include 'inc.j2' %}!", "!", "main.hip.j2:1:23-1:24"),
    (
        "{% from 'm.j2' import store %}{{ store('x', 7) }}",
        "7",
        "m.j2:2:15-2:22 < store('x', 7)",
    ),
    (
        "{% import 'm.j2' as m %}\n{% for k in range(2) %}{{ m.store('y', k) | indent(4) }}{% endfor %}",
        "st_y(1",
        "m.j2:2:1-2:22 < m.store('y', k) | indent(4) < for k in range(2) #1",
    ),
    ("{% extends 'base.j2' %}{% block b %}in{% endblock %}", "in", "main.hip.j2:1:37-1:39 < block b < extends 'base.j2'"),
    ("{% extends 'base.j2' %}{% block b %}[{{ super() }}]{% endblock %}", "old", "base.j2:2:14-2:17 < super() < block b < extends 'base.j2'"),
    ("{% set c %}cap {{ NPerBlock }}{% endset %}{{ c | upper | trim }}", "CAP", "main.hip.j2:1:12-1:15 < c | upper | trim"),
    ("{% set c %}cap{% endset %}{{ c ~ '!' }}", "cap", "main.hip.j2:1:12-1:15 < c ~ '!'"),
    ("{% set c %}a b{% endset %}{{ c | replace('a', 'zz') }}", "zz", "main.hip.j2:1:12-1:15 < c | replace('a', 'zz')"),
    ("{% filter upper %}abc{% endfilter %}", "ABC", "main.hip.j2:1:19-1:22 < filter upper"),
    (
        "{% macro w() %}<{{ caller(3) }}>{% endmacro %}{% call(n) w() %}n{{ n }}{% endcall %}",
        "3",
        "main.hip.j2:1:65-1:72 < caller(3) < call(n) w()",
    ),
    ("{{ ['a', 'b'] | join('+') }}", "a+b", "main.hip.j2:1:1-1:29"),
    ("{% set c %}one two{% endset %}{{ c | wordwrap(4) }}", "two", "main.hip.j2:1:16-1:19 < c | wordwrap(4)"),
    ("{% set c %}a\nb c{% endset %}{{ c | indent(2) }}", "b c", "main.hip.j2:2:1-2:4 < c | indent(2)"),
    ("{% set c %}a, b{% endset %}{{ c.split(', ')[1] }}", "b", "main.hip.j2:1:15-1:16 < c.split(', ')[1]"),
    ("{% set c %}a  b{% endset %}{{ c.split()[1] }}", "b", "main.hip.j2:1:15-1:16 < c.split()[1]"),
    ("{% set c %}a = b{% endset %}{{ c.rpartition(' = ')[2] }}", "b", "main.hip.j2:1:16-1:17 < c.rpartition(' = ')[2]"),
    ("{% set c %}x\ny{% endset %}{{ (c + '!' + c)[4:] }}", "y", "main.hip.j2:2:1-2:2 < (c + '!' + c)[4:]"),
    ("{{ template_argument('MPerBlock') }},", "/* MPerBlock */ 128", "main.hip.j2:1:1-1:37"),
]  # fmt: skip


@pytest.mark.parametrize(("template", "piece", "expected"), MAPPED)
def test_map(tmp_path: Path, template: str, piece: str, expected: str) -> None:
    files = {
        "main.hip.j2": template,
        "m.j2": MACROS,
        "inc.j2": "inc {{ arch }}\n",
        "base.j2": "top\n{% block b %}old{% endblock %}\nend\n",
    }
    assert where(tmp_path, origin_of(rendered(tmp_path, files), piece)) == expected


def test_the_map_names_the_parameter_behind_a_macro_argument(tmp_path: Path) -> None:
    text = "{% macro arg(v) %}< {{ v }} >{% endmacro %}{{ arg(MPerBlock) }}"
    assert "MPerBlock" in origin_of(rendered(tmp_path, {"a.hip.j2": text}), "128").names


def test_text_built_from_captured_text_is_approximate(tmp_path: Path) -> None:
    text = "{% set c %}cap{% endset %}{{ '%s!' | format(c) }}{{ '<%s>' % c }}{{ c }}"
    result = rendered(tmp_path, {"a.hip.j2": text})
    assert not origin_of(result, "cap!").exact
    assert not origin_of(result, "<cap>").exact
    at = result.text.rindex("cap")
    origin = result.source_map.origin_of_range(at, at + 3)
    assert origin is not None
    assert origin.exact


PIECES = st.sampled_from(
    [
        "int x; ", "\n", "  ", "é ", "{{ MPerBlock }}", "{{- NPerBlock }}", "{{ NPerBlock -}} ", "{# note #}",
        "{% if MPerBlock > 100 %}big{% else %}small{% endif %}", "{%- for i in range(3) %}{{ i }},{% endfor -%}\n",
        "{% set c %} cap {{ arch }}\n{% endset %}{{ c | trim | upper }}{{ c | length }}", "{{ c is defined }}",
        "{% macro m(a, b=2) %}<{{ a }}|{{ b }}>{% endmacro %}{{ m(1) }}{{ m('q', b=m(3)) | indent(2) }}",
        "{% filter replace('a', 'bb') %}banana {{ arch }}{% endfilter %}", "{% raw %}{{ }}{% endraw %}",
        "{{ 'a' ~ 1 ~ arch }}", "{{ ('x' * 3) + arch }}", "{{ arch[1:3] }}{{ arch.upper() }}", "{{ arch | list }}",
        "{% for k, v in {'a': 1}.items() %}{{ k }}={{ '%03d' % v }} {{ loop.index }}/{{ loop.length }}{% endfor %}",
        "{% call(x) q() %}{{ x }}{% endcall %}", "{{ [1, 2] | map('string') | join(', ') }}", "{{ arch | default('z') }}",
        "{% with z = 3 %}{{ z }}{% endwith %}", "{{ 'ab cd' | wordwrap(2) }}", "{{ 'a\nb' | indent(3, first=true) }}",
        "{{ '<b>' | e }}", "{% autoescape true %}{{ '<b>' }}{% endautoescape %}",
    ]
)  # fmt: skip
PREFIX = "{% macro q() %}[{{ caller(8) }}]{% endmacro %}{% set c = 'none' %}"


@given(pieces=st.lists(PIECES, max_size=12))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_the_text_is_that_of_plain_jinja(tmp_path: Path, pieces: list[str]) -> None:
    source = PREFIX + "".join(pieces)
    plain = ImmutableSandboxedEnvironment(
        loader=DictLoader({"t": source}),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"],
    )
    expected = plain.get_template("t").render(MPerBlock=128, NPerBlock=64, arch="gfx942")
    result = rendered(tmp_path, {"t.hip.j2": source})
    assert result.text == expected
    check_map(result.source_map, {str(tmp_path / "t.hip.j2"): source})


def check_map(source_map: SourceMap, sources: dict[str, str]) -> None:
    """Segments cover the text, and copied characters are the very characters at their place."""
    at = 0
    for segment in source_map.segments:
        assert segment.start == at
        at = segment.end
        lines = sources[segment.site.span.path].split("\n")
        if segment.verbatim:
            position = segment.position
            for char in source_map.text[segment.start : segment.end]:
                line = lines[position.line] + "\n"
                assert char.lower() == line[position.column].lower()
                position = (
                    Position(position.line + 1, 0) if char == "\n" else Position(position.line, position.column + 1)
                )
    assert at == len(source_map.text)


def test_reads_and_misses_are_recorded(tmp_path: Path) -> None:
    outcome = render(tmp_path, {"a.hip.j2": "{% include 'b.j2' %}{{ globals('hip') }}", "b.j2": "b"})
    names = {Path(path).name for path in outcome.read}
    assert names == {"a.hip.j2", "b.j2", "globals_hip.j2", "globals_cpp.j2"}
    assert str(tmp_path / "hooks/globals_hip.j2") in outcome.missed


def test_a_missing_template_is_recorded_as_looked_for(tmp_path: Path) -> None:
    outcome = render(tmp_path, {"a.hip.j2": "{% include 'gone.j2' %}"})
    assert str(tmp_path / "gone.j2") in outcome.missed
    assert outcome.diagnostics[0].code == "template/not-found"


def test_an_edit_is_seen_and_a_new_file_shadows_a_builtin(tmp_path: Path) -> None:
    renderer = Renderer((tmp_path, ckwatch_templates.ROOT))
    (tmp_path / "a.hip.j2").write_text("{{ globals('hip') }}one")
    first = renderer.render(unit("a.hip.j2")).rendered
    (tmp_path / "a.hip.j2").write_text("{{ globals('hip') }}three")
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks/globals_hip.j2").write_text("mine ")
    second = renderer.render(unit("a.hip.j2")).rendered
    overlaid = renderer.render(unit("a.hip.j2"), overlays={str(tmp_path / "a.hip.j2"): "unsaved"}).rendered
    after = renderer.render(unit("a.hip.j2")).rendered
    assert first is not None
    assert "PT_EXPORT" in first.text
    assert [r.text for r in (second, overlaid, after) if r] == ["mine three", "unsaved", "mine three"]


BAD = [
    # (template, code, line:column of the start, a part of the message)
    ("int {{ MPerBlok }};", "template/undefined", "1:8", "did you mean 'MPerBlock'"),
    ("\n é {{ 1 + MPerBlok }}", "template/undefined", "2:11", "'MPerBlok' is undefined"),
    ("{{ operation.knd }}", "template/undefined", "1:14", "the operation has no attribute 'knd'; did you mean 'kind'"),
    ("a\n{% if x %}\n", "template/syntax", "2:1", "this `if` is not closed"),
    ("a\n  {% fi x %}\n", "template/syntax", "2:6", "there is no tag `fi`; did you mean 'if'"),
    ("a {{ x | uper }}", "template/syntax", "1:10", "Did you mean 'upper'"),
    ("{{ (1 + }}", "template/syntax", "1:4", "`(` is not closed"),
    ("a\n{{ b ? c }}", "template/syntax", "2:6", "unexpected char '?'"),
    ("x\n{{ 1 // 0 }}", "template/error", "2:4", "division by zero"),
    ("{% include 'nope.j2' %}", "template/not-found", "1:12", "'nope.j2' is not found"),
    ("{{ X.__class__ }}", "template/forbidden", "1:6", "unsafe"),
    ("{{ nope._b }}", "template/undefined", "1:4", "'nope' is undefined"),
    ("{{ ''.join }}", "template/hook", "1:1", "is a function: call it"),
    ("{{ X[['a'] | map('upper')] }}", "template/undefined", "1:1", "has no such element"),
    ("{{ header('cuda') }}", "template/hook", "1:11", "hip, ck, ck_library, ck_tile, cu, cutlass, cpp"),
    ("{{ def_kernel([X], [Y], names_str='X') }}", "template/hook", "1:35", "1 names for 1 inputs and 1 outputs"),
    ("{{ template_argument('AK1') }}", "template/hook", "1:22", "sets no parameter 'AK1'"),
    ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "template/recursion", "1:19", "without end"),
    ("{% for i in range(1000000) %}x{% endfor %}", "template/limit", "1:13", "Range too big"),
    ("{{ 'x' * 10000000000 }}", "template/limit", "1:4", "more than"),
    ("{{ 7 ** 7 ** 7 ** 7 ** 7 ** 7 }}", "template/limit", "1:4", "bits"),
    ("{{ [0] * 100000000 }}", "template/limit", "1:4", "items"),
    ("{% if MPerBlock %}\n{% for i in [] %}\n{% endif %}", "template/syntax", "2:1", "`{% endfor %}` is missing before `endif`"),
    ("{% for i in [] %}\n{% endif %}", "template/syntax", "2:4", "does not close the `for` of line 1: write `endfor`"),
    ("{% for i in [] %}\n{% endfro %}", "template/syntax", "2:4", "write `endfor`"),
    ("a\n{% endfor %}", "template/syntax", "2:4", "no `for` is open"),
    ("{% else %}", "template/syntax", "1:4", "outside of an `if`"),
    ("{% macro f() %}\nx", "template/syntax", "1:1", "`{% endmacro %}` is missing"),
    ("{% raw %}\nx", "template/syntax", "1:1", "`{% endraw %}` is missing"),
    ("é {# x", "template/syntax", "1:3", "comment is not closed"),
    ("a {{ MPerBlock", "template/syntax", "1:3", "`}}` is missing"),
    ("a {{ MPerBlock ;\nb {{ MPerBlock }}", "template/syntax", "1:3", "`}}` is missing"),
    ("a {{ MPerBlock };", "template/syntax", "1:16", "single `}`"),
    ("{% if MPerBlock \n{{ 1 }}", "template/syntax", "1:1", "`%}` is missing"),
    ("{{ header('hip) }}\n{{ header('hip') }}", "template/syntax", "1:11", "string is not closed"),
    ("{{ MPerBlock && 1 }}", "template/syntax", "1:14", "written `and`"),
    ("{{ MPerBlock || 1 }}", "template/syntax", "1:14", "written `or`"),
    ("{{ !MPerBlock }}", "template/syntax", "1:4", "written `not`"),
    ("{% if MPerBlock = 1 %}{% endif %}", "template/syntax", "1:17", "write `==`"),
    ("{% if MPerBlock %}{% else if NPerBlock %}{% endif %}", "template/syntax", "1:22", "written `elif`"),
    ("{% set x 1 %}", "template/syntax", "1:10", "`=` is missing"),
    ("{{ MPerBlock is evn }}", "template/syntax", "1:17", "Did you mean 'even'"),
    ("x\n{% break %}", "template/syntax", "2:4", "outside of a loop"),
    ("{% block a %}{% endblock %}\n{% block a %}{% endblock %}", "template/syntax", "2:10", "defined twice"),
    ("{% include 'a.hip.j2' %}", "template/recursion", "1:1", "a.hip.j2 includes itself"),
    ("{% extends 'a.hip.j2' %}", "template/recursion", "1:1", "a.hip.j2 extends itself"),
    ("{% include a.hip %}", "template/undefined", "1:12", "stands in quotes"),
    ("{% include 'hooks/header_hp.j2' %}", "template/not-found", "1:12", "did you mean 'hooks/header_hip.j2'"),
    ("{{ dtype }}", "template/hook", "1:4", "write dtype(tensor)"),
    ("{{ get_signature }}", "template/hook", "1:4", "def_kernel must be called before"),
    ("{{ size_args | join }}", "template/hook", "1:4", "write size_args()"),
    ("{% for s in size_args %}{% endfor %}", "template/hook", "1:13", "write size_args()"),
    ("{{ 'a' ~ layout }}", "template/hook", "1:10", "is a hook"),
    ("{{ kernel }}", "template/hook", "1:4", "kernel.NAME"),
    ("{{ kernel.defkernel() }}", "template/undefined", "1:11", "did you mean 'def_kernel'"),
    ("{{ X }}", "template/hook", "1:4", "X.name"),
    ("{{ X.dytpe }}", "template/undefined", "1:6", "the tensor X has no attribute 'dytpe'; did you mean 'dtype'"),
    ("{{ operation }}", "template/hook", "1:4", "operation.kind"),
    ("{{ range }}", "template/hook", "1:4", "`range` is a function"),
    ("{{ ['a'] | map('upper') }}", "template/hook", "1:1", "`| join`"),
    ("{% macro f(a, b) %}{% endmacro %}{{ f }}", "template/hook", "1:37", "write f(a, b)"),
    ("{% macro f(a) %}{{ a }}{% endmacro %}\n{{ f() }}", "template/undefined", "2:4", "the macro needs 'a'"),
    ("{% macro f(a) %}{% endmacro %}\n{{ f(1, 2) }}", "template/error", "2:4", "not more than 1"),
    ("{% macro f(left) %}{% endmacro %}\n{{ f(lfet=2) }}", "template/error", "2:6", "did you mean 'left'"),
    ("{{ header('hip', 'ck') }}", "template/hook", "1:18", "takes 1 argument"),
    ("{{ header(famliy='hip') }}", "template/hook", "1:11", "did you mean 'family'"),
    ("{{ def_kernel(inputs=[X]) }}", "template/hook", "1:4", "needs `outputs`"),
    ("{{ def_kernel(X, [Y]) }}", "template/hook", "1:4", "inputs must be a list"),
    ("{{ def_kernel(inputs=X, outputs=[Y]) }}", "template/hook", "1:22", "inputs must be a list"),
    ("{{ def_kernel(inputs=[X, 'W'], outputs=[Y]) }}", "template/hook", "1:26", "write W without quotes"),
    ("{{ def_kernel(inputs=[X, Z], outputs=[Y]) }}", "template/undefined", "1:26", "'Z' is undefined"),
    ("{{ dtype(MPerBlock) }}", "template/hook", "1:10", "not the number 128"),
    ("{{ size(Y, 'a') }}", "template/hook", "1:12", "an axis is a number"),
    ("{{ stride(Y, 7) }}", "template/hook", "1:14", "2 axes"),
    ("{{ template_argument('MPerBlok') }}", "template/hook", "1:22", "did you mean 'MPerBlock'"),
    ("{{ unsupported(MPerBlock) }}", "template/hook", "1:16", "a string of one line is needed here"),
    ("{{ template_argument(MPerBlock) }}", "template/hook", "1:22", "name is needed here, in quotes"),
    ("{% for i in MPerBlock %}{% endfor %}", "template/hook", "1:13", "nothing to loop over in the number 128"),
    ("{% for a, b in [1] %}{% endfor %}", "template/error", "1:8", "no parts"),
    ("{{ 1 + 'a' }}", "template/error", "1:4", "an integer and a string; `~` joins"),
    ("{{ 'a' + 1 }}", "template/error", "1:4", "a string and an integer; `~` joins"),
    ("{{ MPerBlock < 'a' }}", "template/error", "1:4", "cannot compare an integer with a string"),
    ("{{ X + 1 }}", "template/error", "1:4", "a tensor and an integer"),
    ("{{ MPerBlock() }}", "template/error", "1:4", "an integer and cannot be called"),
    ("{{ MPerBlock | join }}", "template/hook", "1:16", "takes a list"),
    ("{{ 'a' | indent(1, 2, 3, 4) }}", "template/error", "1:10", "indent takes from 1 to 4"),
]  # fmt: skip


@pytest.mark.parametrize(("template", "code", "start", "message"), BAD)
def test_mistakes(tmp_path: Path, template: str, code: str, start: str, message: str) -> None:
    (diagnostic,) = render(tmp_path, {"a.hip.j2": template}).diagnostics
    assert (diagnostic.code, str(diagnostic.span.start)) == (code, start)
    assert diagnostic.span.path == str(tmp_path / "a.hip.j2")
    assert message in diagnostic.message


def test_several_undefined_names_are_reported_each_at_its_place(tmp_path: Path) -> None:
    files = {
        "a.hip.j2": "{{ MPerBlok + 1 }} {{ X.nmae }}\n{% include 'b.j2' %}{% for i in Lst %}{{ i.x }}{% endfor %}\n"
        "{% if Kind == 1 %}{{ header(Family) }}{% endif %}{{ NPerBlock }}{{ MPerBlok }}",
        "b.j2": "{{ Ohter.attribute() | upper }}",
    }
    found = render(tmp_path, files).diagnostics
    assert [(Path(one.span.path).name, str(one.span.start)) for one in found] == [
        *(("a.hip.j2", "1:4"), ("a.hip.j2", "1:25"), ("b.j2", "1:4"), ("a.hip.j2", "2:33"), ("a.hip.j2", "3:7")),
        ("a.hip.j2", "3:68"),
    ]
    assert all("undefined" in one.message or "attribute" in one.message for one in found)


def test_after_undefined_names_were_looked_for_they_are_errors_again(tmp_path: Path) -> None:
    renderer = Renderer((tmp_path,))
    (tmp_path / "m.j2").write_text("{% macro f(x) %}{{ x + wrong }}{% endmacro %}")
    (tmp_path / "a.hip.j2").write_text("{{ Nope }}{% from 'm.j2' import f %}")
    renderer.render(unit("a.hip.j2"))
    (tmp_path / "a.hip.j2").write_text("{% from 'm.j2' import f %}{{ f(1) }}")
    (diagnostic,) = renderer.render(unit("a.hip.j2")).diagnostics
    assert (Path(diagnostic.span.path).name, str(diagnostic.span.start)) == ("m.j2", "1:24")


def test_errors_are_the_same_each_time(tmp_path: Path) -> None:
    renderer = Renderer((tmp_path,))
    (tmp_path / "m.j2").write_text("{% macro f(x) %}{{ x + wrong }}{{ 1 // 0 }}{% endmacro %}")
    (tmp_path / "a.hip.j2").write_text("{{ Nope }}{% from 'm.j2' import f %}{{ f(1) }}{{ Other }}")
    first, second = (renderer.render(unit("a.hip.j2")).diagnostics for _ in range(2))
    assert first == second
    assert [Path(one.span.path).name for one in first] == ["a.hip.j2", "m.j2", "m.j2", "a.hip.j2"]


IMPORTED = "{% macro f() %}\n{{ MPerBlock }}{{ header('hip') }}{% endmacro %}"
WITHOUT_CONTEXT = [
    ("{% from 'm.j2' import f %}{{ f() }}", "1:1", "{% from 'm.j2' import f with context %}"),
    ("{% import 'm.j2' as m -%}{{ m.f() }}", "1:1", "{% import 'm.j2' as m with context -%}"),
    ("\n{% from 'm.j2' import f without context %}{{ f() }}", "2:1", "{% from 'm.j2' import f with context %}"),
]


@pytest.mark.parametrize(("template", "start", "fixed"), WITHOUT_CONTEXT)
def test_a_macro_that_was_imported_without_context(tmp_path: Path, template: str, start: str, fixed: str) -> None:
    (diagnostic,) = render(tmp_path, {"a.hip.j2": template, "m.j2": IMPORTED}).diagnostics
    assert (str(diagnostic.span.start), "without context" in diagnostic.message) == (start, True)
    (fix,) = diagnostic.fixes
    lines = template.split("\n")
    line = lines[fix.span.start.line]
    assert fixed in line[: fix.span.start.column] + fix.text + line[fix.span.end.column :]


def test_a_name_that_the_imported_template_lacks_is_reported_at_the_import(tmp_path: Path) -> None:
    files = {"a.hip.j2": "{% from 'm.j2' import stor %}\n{{ store('x', 7) }}", "m.j2": MACROS}
    (diagnostic,) = render(tmp_path, files).diagnostics
    assert (str(diagnostic.span.start), diagnostic.message) == ("1:23", "'m.j2' has no 'stor'; did you mean 'store'?")


def test_a_long_chain_is_cut_in_its_middle(tmp_path: Path) -> None:
    files = {"a.hip.j2": "{% from 'm.j2' import f %}{{ f(60) }}"}
    files["m.j2"] = "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{% else %}{{ 1 // 0 }}{% endif %}{% endmacro %}"
    (diagnostic,) = render(tmp_path, files).diagnostics
    assert (len(diagnostic.related), diagnostic.related[6].message) == (9, "and 53 more")
    assert "f(60)" in diagnostic.related[-1].message


def test_messages_name_no_classes(tmp_path: Path) -> None:
    for template, *_ in BAD:
        for diagnostic in render(tmp_path, {"a.hip.j2": template}).diagnostics:
            text = " ".join([diagnostic.message, *(related.message for related in diagnostic.related)])
            assert not re.search(r"Undefined|Hooks|object|<|Error|jinja2|ckwatch\.(?!toml)", text.replace("`<`", "")), (
                text
            )


def test_a_misspelt_name_has_a_fix_where_it_stands(tmp_path: Path) -> None:
    texts = {"a.hip.j2": "{% include 'b.j2' %}", "b.j2": "é\n{{ 1 + MPerBlok }}"}
    (diagnostic,) = render(tmp_path, texts).diagnostics
    (fix,) = diagnostic.fixes
    assert (fix.span.path, str(fix.span.start), str(fix.span.end)) == (str(tmp_path / "b.j2"), "2:8", "2:16")
    assert fix.text == "MPerBlock"
    (unknown,) = render(tmp_path, {"a.hip.j2": "{{ quite_another }}"}).diagnostics
    assert unknown.fixes == ()


def test_a_mistake_in_a_macro_names_its_calls(tmp_path: Path) -> None:
    files = {
        "a.hip.j2": "{% from 'm.j2' import f %}\n{% for i in [1] %}\n  {{ f(i) }}\n{% endfor %}",
        "m.j2": "{% macro f(x) %}\n{{ x + wrong }}\n{% endmacro %}",
    }
    (diagnostic,) = render(tmp_path, files).diagnostics
    assert (Path(diagnostic.span.path).name, str(diagnostic.span.start)) == ("m.j2", "2:8")
    called = [
        (Path(r.span.path).name, str(r.span.start)) for r in diagnostic.related if r.span and "called" in r.message
    ]
    assert called == [("a.hip.j2", "3:3")]


def test_a_syntax_error_in_an_included_file_is_reported_there(tmp_path: Path) -> None:
    (diagnostic,) = render(tmp_path, {"a.hip.j2": "x\n{% include 'b.j2' %}", "b.j2": "\n{{ 1 + }}"}).diagnostics
    assert (Path(diagnostic.span.path).name, str(diagnostic.span.start)) == ("b.j2", "2:8")
    assert [str(r.span.start) for r in diagnostic.related if r.span] == ["2:1"]


def test_latin_1_is_refused_at_the_byte(tmp_path: Path) -> None:
    (tmp_path / "a.hip.j2").write_bytes("ok\n// caf\xe9\n".encode("latin-1"))
    (diagnostic,) = Renderer((tmp_path,)).render(unit("a.hip.j2")).diagnostics
    assert (diagnostic.code, str(diagnostic.span.start)) == ("template/not-utf-8", "2:7")
    assert "0xE9" in diagnostic.message


@pytest.mark.parametrize("name", ["a.hip.j2", "b.j2"])
def test_a_render_depends_on_a_template_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.hip.j2").write_text("{% include 'b.j2' %}")
    (tmp_path / "b.j2").write_text("x")
    renderer = Renderer((tmp_path,))
    assert renderer.render(unit("a.hip.j2")).ok
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    outcome = renderer.render(unit("a.hip.j2"))
    assert outcome.diagnostics[0].code == "template/unreadable"
    assert str(tmp_path / name) in outcome.missed - outcome.read.keys()


def test_endless_loops_and_floods_are_stopped_where_they_are(tmp_path: Path) -> None:
    loops = "{% for i in range(99999) %}{% for j in range(99999) %}{{ '' }}{% endfor %}{% endfor %}"
    flood = "{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}"
    for template, limits in ((loops, RenderLimits(time_limit_s=0.3)), (flood, RenderLimits(output_limit=100_000))):
        (tmp_path / "a.hip.j2").write_text(template)
        (diagnostic,) = Renderer((tmp_path,)).render(unit("a.hip.j2"), limits).diagnostics
        assert (diagnostic.code, Path(diagnostic.span.path).name) == ("template/limit", "a.hip.j2")
        assert "ckwatch.toml raises the limit" in diagnostic.message


SIGNATURES = [
    ({}, None, "const uint16_t* X, const uint16_t* W, uint16_t* Y"),
    ({"Bias": tensor("Bias")}, None, "const uint16_t* X, const uint16_t* W, const uint16_t* Bias, uint16_t* Y"),
    ({"Bias": tensor("Bias", "f32")}, "[2, 0, 1]", "const float* Bias, const uint16_t* X, const uint16_t* W, uint16_t* Y"),
    ({"W": tensor("W", buffer="X")}, None, "const uint16_t* X, uint16_t* Y"),
    ({"X": tensor("X", "f8"), "W": tensor("W", "f8")}, None, "const uint8_t* X, const uint8_t* W, uint16_t* Y"),
    ({"W": tensor("W", buffer="Y")}, None, "const uint16_t* X, uint16_t* W"),
]  # fmt: skip
TAIL = ", int32_t M, int32_t N, int32_t K, int32_t LDA, int32_t LDB, int32_t LDC, int32_t LDD, int32_t kBatch, size_t* workspace_size, uint8_t* workspace, hipStream_t stream)"


@pytest.mark.parametrize(("inputs", "order", "expected"), SIGNATURES)
def test_def_kernel(tmp_path: Path, inputs: dict[str, object], order: str | None, expected: str) -> None:
    operation = gemm(inputs=tuple((dict(gemm().inputs) | inputs).items()))
    if order is not None:
        operation = replace(operation, settings={**operation.settings, "input_reorder": (4, 0, 1, 2, 3)})
    call = f"inputs=[X, W, Bias], outputs=[Y], names_str='X, W, Bias, Y', input_reorder={order or 'none'}"
    (tmp_path / "gemm.hip.j2").write_text("PT_EXPORT {{ def_kernel(" + call + ") }};\n{{ arg_name(W) }}")
    result = Renderer((tmp_path,)).render(unit("gemm.hip.j2", operation)).rendered
    assert result is not None
    assert f"PT_EXPORT int {result.symbol}({expected}{TAIL};" in result.text
    assert result.text.splitlines()[-1] in expected


SIZES = '["int32_t M", "int32_t N", "int32_t K", "int32_t LDA", "int32_t LDB", "int32_t LDC", "int32_t LDD"]'


@pytest.mark.parametrize(
    ("sizes", "place", "message"),
    [
        (SIZES, None, None),
        (SIZES.replace("int32_t", "ck::index_t"), None, None),
        (
            SIZES.replace("t M", "t x").replace("t N", "t M").replace("t x", "t N"),
            "size_args=[",
            "declare `N` as number 1, but",
        ),
        (
            SIZES.replace('"int32_t K", ', ""),
            "size_args=[",
            "size_args declare `LDA` as number 3, but by [operation] the",
        ),
        (
            SIZES.replace(', "int32_t LDD"', ""),
            "size_args=[",
            "size_args do not declare LDD, but by [operation] the kernel",
        ),
        (SIZES.replace("]", ', "int32_t kBatch"]'), "size_args=[", "declare `kBatch` as number 8"),
        ("[]", "size_args=[]", "do not declare M, N, K, LDA, LDB, LDC, LDD"),
        ("[1]", "size_args=[1]", 'size_args are C declarations such as "int32_t M", not the number 1'),
    ],
)
def test_sizes_are_those_that_the_kernel_is_called_with(
    tmp_path: Path, sizes: str, place: str | None, message: str | None
) -> None:
    line = "PT_EXPORT {{ def_kernel([X, W], [Y], size_args=" + sizes + ") }};"
    (tmp_path / "gemm.hip.j2").write_text(line)
    result = Renderer((tmp_path,)).render(unit("gemm.hip.j2", gemm()))
    errors = [found for found in result.diagnostics if found.code == "template/hook"]
    if place is None or message is None:
        assert errors == []
        return
    (error,) = errors
    assert message in error.message
    assert error.span.start.column in range(line.index(place), line.index(place) + len("size_args=[") + 1)


def test_one_source_has_one_name(tmp_path: Path) -> None:
    (tmp_path / "gemm.hip.j2").write_text("int {{ KERNEL_NAME }}() { return {{ MPerBlock }}; }")
    renderer = Renderer((tmp_path,))
    names = {value: renderer.render(unit("gemm.hip.j2", MPerBlock=value)).rendered for value in (1, 2)}
    again = renderer.render(unit("gemm.hip.j2", arch="gfx950", MPerBlock=1)).rendered
    assert names[1] is not None
    assert names[2] is not None
    assert again is not None
    assert names[1].symbol == again.symbol != names[2].symbol
    assert names[1].symbol in names[1].text


@pytest.mark.parametrize(
    ("call", "declared"),
    [
        ("def_kernel([W, X], [Y])", "W, X, Y"),
        ("def_kernel([X, W], [Y], 'W, X, Y', [1, 0])", "W, X, Y"),
        ("def_kernel([Y, X], [W])", "Y, X, W"),
    ],
)
def test_tensors_are_declared_in_the_order_of_the_call(tmp_path: Path, call: str, declared: str) -> None:
    (diagnostic,) = render(tmp_path, {"a.hip.j2": "\n{{ " + call + " }}"}).diagnostics
    assert (diagnostic.code, diagnostic.span.start.line) == ("template/hook", 1)
    assert f"def_kernel declares {declared}, but by [operation] the kernel is called with X, W, Y" in diagnostic.message


SEVERAL_ERRORS = [
    # (template, code and start of each error)
    (
        "{{ Nope }}\n{{ 1 // 0 }}\n{{ Other }}\n{{ 1 + 'a' }}",
        [("undefined", "1:4"), ("error", "2:4"), ("undefined", "3:4"), ("error", "4:4")],
    ),
    ("{{ 1 // 0 }}\n{{ Nope }}", [("error", "1:4"), ("undefined", "2:4")]),
    ("{{ Nope }}{{ 'a' | indent(1, 2, 3, 4) }}{{ Other }}", [("undefined", "1:4"), ("error", "1:20"), ("undefined", "1:44")]),
    (
        "{% set z %}{{ Nope }}{% endset %}{% if MPerBlock < 'a' %}{% endif %}\n{{ z }}{{ header('cuda') }}{{ Other }}",
        [("undefined", "1:15"), ("error", "1:40"), ("hook", "2:18"), ("undefined", "2:31")],
    ),
    (
        "{% macro f(a) %}{{ a // 0 }}{{ Nope }}{% endmacro %}{{ f(1) }}{{ f(2) }}\n{{ Other }}",
        [("error", "1:20"), ("undefined", "1:32"), ("undefined", "2:4")],
    ),
    (
        "{% for i in range(300) %}{{ Nope }}{{ i // 0 }}{% endfor %}\n{{ Other }}",
        [("undefined", "1:29"), ("error", "1:39"), ("undefined", "2:4")],
    ),
    ("{{ Nope }}{% for i in MPerBlock %}{% endfor %}{{ Other }}", [("undefined", "1:4"), ("hook", "1:23"), ("undefined", "1:50")]),
]  # fmt: skip


@pytest.mark.parametrize(("template", "errors"), SEVERAL_ERRORS)
def test_several_errors_of_all_kinds_are_reported_in_one_run(
    tmp_path: Path, template: str, errors: list[tuple[str, str]]
) -> None:
    found = render(tmp_path, {"a.hip.j2": template}).diagnostics
    assert [(one.code.removeprefix("template/"), str(one.span.start)) for one in found] == errors


FOLLOWING = [
    # what fails after the first error, and because of it
    "{% set a = Nope %}{{ 'x' * a }}{{ range(a) | join }}{{ 7.5 | round(a) }}{{ X.name[a:] }}",
    "{% set a = Nope | int %}{{ 1 // a }}{% set b = a + 0 %}{{ 1 // b }}",
    "{% set a = 1 // 0 %}{{ range(a) | join }}{{ a + 'x' }}{% for i in a %}{{ i.x }}{% endfor %}",
    "{% macro f(a) %}{{ [1] | batch(a) | list | join }}{% endmacro %}{{ 1 // 0 }}{{ f(1 // 0) }}",
    "{{ def_kernel([X, W]) }}{{ arg_name(X) }}",
    "{{ arg_name(X) }}{{ arg_name(W) }}",
    "{{ def_kernal([X, W], [Y]) }}{{ arg_name(X) }}{{ ptr(Y) }}{{ get_signature() }}",
    "{% macro delcare() %}{{ def_kernel([X, W], [Y]) }}{% endmacro %}{{ declare() }}{{ arg_name(X) }}",
    "{{ kernel.def_kernal([X, W], [Y]) }}{{ kernel.arg_name(X) }}",
    "{% set batchde = 1 %}{{ batched }}{% if batched %}{% endif %}{{ batched + 1 }}",
    "{% macro lien(a) %}{{ a }}{% endmacro %}{{ line(1) }}{{ line(2) }}",
]


@pytest.mark.parametrize("template", FOLLOWING)
def test_what_follows_from_an_error_is_none(tmp_path: Path, template: str) -> None:
    first, *others = render(tmp_path, {"a.hip.j2": template}).diagnostics
    assert [str(one.span.start) for one in others] == (["1:82"] if "macro f" in template else []), first


def test_a_misspelt_definition_is_one_error_that_names_all_uses(tmp_path: Path) -> None:
    template = "{% set batchde = 1 %}{{ batched }}\n{% if batched %}{% endif %}"
    (found,) = render(tmp_path, {"a.hip.j2": template}).diagnostics
    assert found.message == "'batched' is undefined; did you mean 'batchde'?"
    assert [(one.message, str(one.span and one.span.start)) for one in found.related] == [("used here, too", "2:7")]


def test_an_included_broken_link_is_called_one(tmp_path: Path) -> None:
    (tmp_path / "part.j2").symlink_to("gone.j2")
    for name, message in (
        ("part.j2", "template 'part.j2' is a link to gone.j2, which does not exist"),
        ("prat.j2", "template 'prat.j2' is not found"),
    ):
        (found,) = render(tmp_path, {"a.hip.j2": f"{{% include '{name}' %}}"}).diagnostics
        assert (found.code, found.message, found.fixes) == ("template/not-found", message, ())
