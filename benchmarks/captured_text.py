"""Captured text of thousands of lines through filters, methods and operators, against plain Jinja2.

Captured text carries the origin of its characters through all of them. Each use is a template of its own; its render
with the map is compared with plain Jinja2's of the same file with the same variables, in processor time. Goal: at most
4 times plain Jinja2. Where that takes less than 0.1 ms, the ratio is that of the fixed costs of a render.
`tests/render/test_mapped_text.py` shows that twice the text is twice the work.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from jinja2 import FileSystemLoader, StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from benchmarks.choosing import alone, asked_runs
from benchmarks.reporting import Row, paired, row
from ckwatch.model.kernels import Instance, Kernel, Operation, Unit
from ckwatch.model.source_map import Site, SiteKind
from ckwatch.model.text import span
from ckwatch.render.hooks import KernelHooks
from ckwatch.render.outcome import Lookups, RenderLimits, map_of
from ckwatch.render.renderer import Renderer, context_of, garbage_kept

MEASURED_CODE = ("daemon/ckwatch/render",)

LINES = 8000
RUNS = 9

NAMED = (
    *("capture", "indent", "list", "upper", "replace", "split and join", "split at blanks", "batch", "captured again"),
    *("compared", "lines by index", "characters in a loop", "characters by index", "macro per line"),
)
"""Uses that are reported one by one: some of the most common, and the slowest."""

PRINTED = "{% set z %}{% for i in range(n) %}int a{{ i }} = f({{ i * 3 }}, 'x');\n{% endfor %}{% endset %}"
WRITTEN = "{% set z %}WRITTEN{% endset %}"

GATHERED = (
    "{{% set ns = namespace(t='') %}}{{% for line in z.splitlines() %}}"
    "{{% set ns.t = {} %}}{{% endfor %}}{{{{ ns.t }}}}"
)
TAKEN = "{{% set ns = namespace(t=z) %}}{{% for i in range(1000) %}}{{% set ns.t = {} %}}{{% endfor %}}{{{{ ns.t }}}}"

USES = {
    "capture": "{{ z }}",
    "indent": "{{ z | indent }}",
    "indent, all lines": "{{ z | indent(2, true, true) }}",
    "list": "{{ z | list | length }}",
    "list, joined": "{{ z | list | join }}",
    "characters in a loop": "{% for c in z %}{{ c }}{% endfor %}",
    "characters by index": "{% for i in range(0, z | length, 4) %}{{ z[i] }}{% endfor %}",
    "lines in a loop": "{% for line in z.splitlines() %}{{ loop.index }} {{ line }}\n{% endfor %}",
    "lines by index": "{% set lines = z.split('\n') %}{% for i in range(lines | length) %}{{ lines[i] }}{% endfor %}",
    "tails": "{% for i in range(0, z | length, 2000) %}{{ z[i:i + 20] }}{% endfor %}",
    "every second": "{{ z[::2] }}",
    "reversed": "{{ z[::-1] }}",
    "reverse": "{{ z | reverse }}",
    "split and join": "{{ z.split('\n') | join(';\n') }}",
    "split at blanks": "{{ z.split() | join(' ') }}",
    "rsplit": "{{ z.rsplit(',') | join(',') }}",
    "lines and join": "{{ z.splitlines(true) | join }}",
    "partition": "{{ z.partition('= f')[2] }}",
    "rpartition": "{{ z.rpartition('= f')[0] }}",
    "replace": "{{ z | replace('int', 'long') }}",
    "replace, method": "{{ z.replace(',', ' ,') }}",
    "replace each letter": "{{ z | replace('', '.') }}",
    "upper": "{{ z | upper }}",
    "title": "{{ z | title }}",
    "capitalize": "{{ z | capitalize }}",
    "trim": "{{ z | trim }}",
    "strip": "{{ z.strip('\n;') }}",
    "wordwrap": "{{ z | wordwrap(20) }}",
    "center": "{{ z | center(400000) }}",
    "expandtabs": "{{ z.expandtabs(8) }}",
    "zfill": "{{ z.zfill(400000) }}",
    "truncate": "{{ z | truncate(30000) }}",
    "escape": "{{ z | e | length }}",
    "escaped": "{{ z | e }}",
    "forceescape": "{{ z | forceescape }}",
    "striptags": "{{ z | striptags }}",
    "urlencode": "{{ z | urlencode }}",
    "urlize": "{{ z | urlize }}",
    "tojson": "{{ z | tojson }}",
    "wordcount": "{{ z | wordcount }}",
    "format": "{{ '%s' | format(z) }}",
    "percent": "{{ '<%s>' % z }}",
    "percent of it": "{{ z.replace(\"'x'\", '%d') % ((1,) * n) }}",
    "format method": "{{ '<{}>'.format(z) }}",
    "plus": "{{ z + z }}",
    "tilde": "{{ z ~ z ~ 1 }}",
    "times": "{{ z * 3 }}",
    "gathered with plus": GATHERED.format("ns.t + line"),
    "gathered with tilde": GATHERED.format("ns.t ~ line"),
    "gathered before": GATHERED.format("line ~ ns.t"),
    "taken off the front": TAKEN.format("ns.t[5:]"),
    "taken by prefix": TAKEN.format("ns.t.removeprefix(ns.t[:5])"),
    "filter block": "{% filter indent(2) %}{{ z }}{% endfilter %}",
    "nested filters": "{{ z | indent | upper | trim | indent(2) | replace('A', 'b') }}",
    "macro's result": "{% macro m(t) %}<{{ t }}>{% endmacro %}{{ m(m(m(z))) | indent }}",
    "macro per line": "{% macro m(t) %}[{{ t }}]{% endmacro %}{% for l in z.splitlines() %}{{ m(l)|trim }}{% endfor %}",
    "call block": "{% macro m() %}{{ caller() | indent }}{% endmacro %}{% call m() %}{{ z }}{% endcall %}",
    "captured again": "{% set y %}{% for l in z.splitlines() %}{{ l }}\n{% endfor %}{% endset %}{{ y | indent }}",
    "sorted lines": "{{ z.splitlines() | sort | join('\n') }}",
    "unique": "{{ z.splitlines() | unique | join('\n') }}",
    "mapped": "{{ z.splitlines() | map('upper') | map('trim') | join('\n') }}",
    "selected": "{{ z.splitlines() | select('ne', '') | join('\n') }}",
    "batch": "{% for b in z.splitlines() | batch(8) %}{{ b | join }}{% endfor %}",
    "slice": "{% for b in z.splitlines() | slice(8) %}{{ b | join }}{% endfor %}",
    "first and last": "{{ z | first }}{{ z | last }}",
    "in": "{% for i in range(50) %}{{ 'none' in z }}{% endfor %}",
    "find": "{% for i in range(50) %}{{ z.find('none') }}{% endfor %}",
    "counted": "{{ z.count('a') }}{{ z | length }}",
    "dictionary": "{% set d = {} %}{% for l in z.splitlines() %}{{ {l: 1}[l] }}{% endfor %}",
    "compared": "{% for l in z.splitlines() %}{{ l == 'a' }}{% endfor %}",
    "translate": "{{ z.translate({97: 'b'}) }}",
    "swapcase": "{{ z.swapcase() }}",
    "casefold": "{{ z.casefold() }}",
    "encode": "{{ z.encode() | length }}",
    "join on it": "{{ z.join(['a', 'b', 'c']) }}",
}  # fmt: skip


class Case:
    """One template, for ckwatch and for plain Jinja2."""

    def __init__(self, folder: Path, use: str, source: str, lines: int) -> None:
        written = "".join(f"int a{number} = f({number * 3}, 'x');\n" for number in range(lines))
        text = source.replace("WRITTEN", written) + use
        (folder / "t.cpp.j2").write_text(text)
        place = span(str(folder / "k.kernel.toml"), 0, 0, 0, 0)
        instance = Instance("i", {"n": lines}, place, {})
        operation = Operation("custom", (), (), "f32", (), ())
        kernel = Kernel("k", place.path, "t.cpp.j2", place, operation, {}, (), (instance,), ("host",), ())
        self._unit = Unit(kernel, instance, "host")
        self._renderer = Renderer((folder,))
        self._site = Site(SiteKind.TEXT, span("t.cpp.j2", 0, 0, 0, 0), "t")
        self._environment = ImmutableSandboxedEnvironment(
            loader=FileSystemLoader(folder), undefined=StrictUndefined, keep_trailing_newline=True
        )

    def ours(self) -> str:
        """The text, with its map made."""
        with garbage_kept():
            return self._mapped()

    def _mapped(self) -> str:
        text, _ = self._renderer.expand(self._unit, RenderLimits(600.0, 1 << 30), {}, Lookups())
        return map_of(text, self._site).text

    def plain(self) -> str:
        """The text, of the same file with the same variables."""
        hooks = KernelHooks(self._unit.kernel.operation, self._unit.instance.parameters, "cpp", str)
        return self._environment.get_template("t.cpp.j2").render(context_of(self._unit, hooks))


def measure() -> list[Row]:
    """All uses together, some by themselves, and the worst of the others."""
    rows, runs = [], asked_runs(RUNS)
    for where, source in (("printed", PRINTED), ("written", WRITTEN)):
        sums: tuple[list[float], list[float]] = ([0.0] * runs, [0.0] * runs)
        others: list[Row] = []
        named: list[Row] = []
        for name, use in USES.items():
            with tempfile.TemporaryDirectory() as folder:
                case = Case(Path(folder), use, source, LINES)
                assert case.ours() == case.plain(), f"{name}: the two renders differ"
                mine, plain = paired(case.ours, case.plain, runs, time.process_time)
            for total, times in zip(sums, (mine, plain), strict=True):
                total[:] = [one + more for one, more in zip(total, times, strict=True)]
            measured = _row(f"{LINES} captured lines, {where}: {name}", mine, plain)
            print(f"{measured.ratio:6.2f}  {measured.name}", flush=True)
            (named if name in NAMED else others).append(measured)
        rows.append(_row(f"{LINES} captured lines, {where}: {len(USES)} uses of them", *sums))
        rows += named
        worst = max(others, key=lambda one: one.ratio)
        rows.append(replace(worst, name=f"{LINES} captured lines, {where}: the worst of the other uses"))
    return rows


def _row(name: str, ours: list[float], plain: list[float]) -> Row:
    return row(
        name,
        ours,
        plain,
        reference_name="plain Jinja2",
        unit="ms of processor time",
        goal="at most 4 x",
        met=lambda _, ratio: ratio <= 4,
    )


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
