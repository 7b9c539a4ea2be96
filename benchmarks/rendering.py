"""Rendering the GEMM template with its source map, against plain Jinja2 on the same files with the same hooks.

The map is complete: what is left to do when somebody asks is to unpack it. Both keep loaded templates and check the
files for changes on every render. Goal: at most 2 times plain Jinja2, and under 5 ms.
"""

from __future__ import annotations

import sys
from pathlib import Path

from jinja2 import FileSystemLoader, StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

import ckwatch_templates
from benchmarks.choosing import alone, asked_runs
from benchmarks.reporting import Row, paired, row
from ckwatch.model.kernels import Unit
from ckwatch.model.source_map import Site, SiteKind
from ckwatch.model.text import span
from ckwatch.render.hooks import KernelHooks
from ckwatch.render.outcome import Lookups, RenderLimits, map_of
from ckwatch.render.renderer import Renderer, context_of, garbage_kept
from ckwatch.workspace.loading import load_workspace

MEASURED_CODE = ("daemon/ckwatch/render", "templates/ckwatch_templates/ck/gemm_universal.hip.j2")

EXAMPLE = Path(__file__).parent.parent / "examples" / "gemm"
RUNS = 200


def plain_renderer(unit: Unit) -> str:
    """Plain Jinja2: a sandbox with strict undefined names, and the hooks."""
    hooks = KernelHooks(unit.kernel.operation, unit.instance.parameters, "hip", lambda name: _include(name))
    return ENVIRONMENT.get_template(unit.kernel.template).render(context_of(unit, hooks))


ENVIRONMENT = ImmutableSandboxedEnvironment(
    loader=FileSystemLoader(ckwatch_templates.ROOT),
    undefined=StrictUndefined,
    keep_trailing_newline=True,
    extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"],
)


def _include(name: str) -> str:
    return ENVIRONMENT.get_template(name).render(has_feature=lambda _: True)


def measure() -> list[Row]:
    """One row."""
    workspace = load_workspace(EXAMPLE)
    kernel = next(kernel for kernel in workspace.kernels if kernel.template.startswith("ck/"))
    unit = Unit(kernel, kernel.instances[0], "gfx942")
    renderer = Renderer((ckwatch_templates.ROOT,))

    def ours() -> None:
        with garbage_kept():
            mapped()

    def mapped() -> None:
        text, path = renderer.expand(unit, RenderLimits(), {}, Lookups())
        map_of(text, Site(SiteKind.TEXT, span(path, 0, 0, 0, 0), unit.kernel.template))

    outcome = renderer.render(unit)
    assert outcome.rendered is not None, outcome.diagnostics
    text, _ = renderer.expand(unit, RenderLimits(), {}, Lookups())
    assert text == plain_renderer(unit), "the two renders differ"
    mine, others = paired(ours, lambda: plain_renderer(unit), asked_runs(RUNS))
    return [
        row(
            f"render {kernel.template} with map ({len(outcome.rendered.text)} characters)",
            mine,
            others,
            reference_name="plain Jinja2",
            unit="ms",
            goal="at most 2 x, under 5 ms",
            met=lambda ms, ratio: ratio <= 2 and ms < 5,
        )
    ]


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
