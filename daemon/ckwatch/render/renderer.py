"""Renders one unit: from template, operation and instance to text, source map, diagnostics and files read.

Synchronous and bounded; it runs in a process of its own (`ckwatch.render.worker_pool`). An error in a template is a
value, never an exception.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ckwatch.model.kernels import Unit
from ckwatch.model.keys import device_text, kernel_symbol, token_key
from ckwatch.model.source_map import Site, SiteKind
from ckwatch.model.targets import language_of
from ckwatch.model.text import span
from ckwatch.render.environment import TemplateEnvironment
from ckwatch.render.hooks import DEVICE_CODE_NAME, KERNEL_NAME, KernelHooks
from ckwatch.render.loader import Lookups
from ckwatch.render.mapped_text import MappedText, replace
from ckwatch.render.outcome import Rendered, RenderLimits, RenderOutcome, map_of
from ckwatch.render.template_errors import RenderFailure, diagnostics_of


class Renderer:
    """Renders units over one template search path, keeping compiled templates between calls."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._environment = TemplateEnvironment(folders)
        # The environment records what the current render reads, so two renders cannot share it at one time.
        self._lock = threading.Lock()

    def render(
        self, unit: Unit, limits: RenderLimits | None = None, overlays: Mapping[str, str] | None = None
    ) -> RenderOutcome:
        """Render `unit`; `overlays` (absolute path → text) replace files."""
        with self._lock:
            lookups = Lookups()
            try:
                text, path = self.expand(unit, limits or RenderLimits(), overlays or {}, lookups)
            except Exception as error:  # noqa: BLE001  # templates can raise anything; each becomes a diagnostic
                failure = RenderFailure(error, unit, self._environment)
                return RenderOutcome(None, diagnostics_of(failure), lookups.read, frozenset(lookups.missed))
            sources = self._environment.sources
            mentioned = frozenset[str]().union(*(sources[path].mentioned for path in lookups.read))
            rendered = finish_render(text, unit.kernel.template, path, mentioned)
            return RenderOutcome(rendered, (), lookups.read, frozenset(lookups.missed))

    def expand(
        self, unit: Unit, limits: RenderLimits, overlays: Mapping[str, str], lookups: Lookups
    ) -> tuple[MappedText, str]:
        """The template's text with its origins, before the kernel has a name, and the template's path.

        Fills `lookups`. Raises whatever the template raises. One at a time; `render` sees to that.
        """
        environment = self._environment
        environment.loader.overlays = dict(overlays)
        environment.lookups = lookups
        environment.budget.start(limits.time_limit_s, limits.output_limit)
        operation, parameters = unit.kernel.operation, unit.instance.parameters
        hooks = KernelHooks(operation, parameters, language_of(unit.kernel.template), self._include)
        template = environment.get_template(unit.kernel.template)
        context = template.new_context(context_of(unit, hooks))
        return environment.concat(template.root_render_func(context)), str(template.filename)

    def _include(self, name: str) -> MappedText:
        template = self._environment.get_template(name)
        return self._environment.concat(template.root_render_func(template.new_context()))


def finish_render(text: MappedText, template_name: str, path: str, mentioned: frozenset[str]) -> Rendered:
    """Name the kernel by its source and flatten the map."""
    key = token_key(text)
    symbol = kernel_symbol(template_name, key)
    named = replace(text, KERNEL_NAME, symbol)
    if DEVICE_CODE_NAME in text:
        named = replace(named, DEVICE_CODE_NAME, kernel_symbol(template_name, token_key(device_text(text))))
    whole = Site(SiteKind.TEXT, span(path, 0, 0, 0, 0), template_name)
    source_map = map_of(named, whole)
    return Rendered(source_map.text, source_map, symbol, key, mentioned)


def context_of(unit: Unit, hooks: KernelHooks) -> dict[str, Any]:
    """The variables a template sees."""
    operation = unit.kernel.operation
    variables: dict[str, Any] = dict(unit.instance.parameters)
    variables.update(operation.inputs)
    variables.update(operation.outputs)
    variables.update(
        (name, getattr(hooks, name))
        for name in (
            *("def_kernel", "arg_name", "ptr", "dtype", "abi_type", "layout", "size", "stride", "check_not_null"),
            *("size_args", "runtime_args", "header", "globals", "template_argument"),
        )
    )
    variables.update(
        kernel=hooks,
        operation=operation,
        parameters=unit.instance.parameters,
        arch=unit.arch,
        input_reorder=operation.settings.get("input_reorder"),
        KERNEL_NAME=KERNEL_NAME,
        DEVICE_CODE_NAME=DEVICE_CODE_NAME,
    )
    return variables
