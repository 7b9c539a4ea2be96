"""Rendering: the text of plain Jinja2, and a map that is exact to line and column."""

from __future__ import annotations

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
from units import gemm, tensor, unit


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
    ("{{ operation.knd }}", "template/undefined", "1:14", "no attribute 'knd'"),
    ("a\n{% if x %}\n", "template/syntax", "2:11", "Unexpected end of template"),
    ("a\n  {% fi x %}\n", "template/syntax", "2:6", "unknown tag 'fi'"),
    ("a {{ x | uper }}", "template/syntax", "1:10", "Did you mean 'upper'"),
    ("{{ (1 + }}", "template/syntax", "1:9", "unexpected"),
    ("a\n{{ b ? c }}", "template/syntax", "2:6", "unexpected char '?'"),
    ("x\n{{ 1 // 0 }}", "template/error", "2:1", "ZeroDivisionError"),
    ("{% include 'nope.j2' %}", "template/not-found", "1:1", "'nope.j2' is not found"),
    ("{{ X.__class__ }}", "template/forbidden", "1:1", "unsafe"),
    ("{{ header('cuda') }}", "template/hook", "1:1", "hip, ck, ck_tile, cu, cutlass, cpp"),
    ("{{ def_kernel([X], [Y], 'X') }}", "template/hook", "1:1", "1 names for 1 inputs and 1 outputs"),
    ("{{ template_argument('AK1') }}", "template/hook", "1:1", "sets no parameter 'AK1'"),
    ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "template/recursion", "1:16", "without end"),
    ("{% for i in range(1000000) %}x{% endfor %}", "template/limit", "1:1", "Range too big"),
    ("{{ 'x' * 10000000000 }}", "template/limit", "1:1", "more than"),
    ("{{ 7 ** 7 ** 7 ** 7 ** 7 ** 7 }}", "template/limit", "1:1", "bits"),
    ("{{ [0] * 100000000 }}", "template/limit", "1:1", "items"),
]  # fmt: skip


@pytest.mark.parametrize(("template", "code", "start", "message"), BAD)
def test_mistakes(tmp_path: Path, template: str, code: str, start: str, message: str) -> None:
    (diagnostic,) = render(tmp_path, {"a.hip.j2": template}).diagnostics
    assert (diagnostic.code, str(diagnostic.span.start)) == (code, start)
    assert diagnostic.span.path == str(tmp_path / "a.hip.j2")
    assert message in diagnostic.message


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
    call = f"inputs=[X, W, Bias], outputs=[Y], names_str='X, W, Bias, Y', input_reorder={order or 'none'}"
    (tmp_path / "gemm.hip.j2").write_text("PT_EXPORT {{ def_kernel(" + call + ") }};\n{{ arg_name(W) }}")
    result = Renderer((tmp_path,)).render(unit("gemm.hip.j2", operation)).rendered
    assert result is not None
    assert f"PT_EXPORT int {result.symbol}({expected}{TAIL};" in result.text
    assert result.text.splitlines()[-1] in expected


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
