"""Render one unit: template + operation + instance → text, source map, diagnostics, files read.

Synchronous and bounded; it runs in a process of its own (`ckwatch.render.process`). A template's mistake is a value,
never an exception.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ckwatch.fingerprint import kernel_symbol, token_key
from ckwatch.model.kernel import Unit
from ckwatch.model.language import language_of
from ckwatch.model.text import span
from ckwatch.render.environment import TemplateEnvironment
from ckwatch.render.failure import Failure, describe
from ckwatch.render.hooks import KERNEL_NAME, KernelHooks
from ckwatch.render.loader import Lookups
from ckwatch.render.outcome import Rendered, RenderLimits, RenderOutcome
from ckwatch.render.text import MappedText, replace, source_map
from ckwatch.sourcemap import Site, SiteKind

RESERVED_NAMES = frozenset({"arch", "kernel", "operation", "parameters", "instance_name", "input_reorder", KERNEL_NAME})
"""Context names that an instance's parameter must not take, beside those of tensors and hooks."""


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
        limits = limits or RenderLimits()
        with self._lock:
            environment = self._environment
            environment.loader.overlays = dict(overlays or {})
            environment.lookups = lookups = Lookups()
            environment.budget.start(limits.time_limit_s, limits.output_limit)
            template_name = unit.kernel.template
            try:
                hooks = KernelHooks(
                    unit.kernel.operation, unit.instance.parameters, language_of(template_name), self._include
                )
                template = environment.get_template(template_name)
                variables = context_of(unit, hooks)
                text = environment.concat(template.root_render_func(template.new_context(variables)))
            except Exception as error:  # noqa: BLE001  # templates can raise anything; each becomes a diagnostic
                failure = Failure(error, unit, environment)
                return RenderOutcome(None, describe(failure), lookups.read, frozenset(lookups.missed))
            mentioned = frozenset[str]().union(*(environment.sources[path].mentioned for path in lookups.read))
            rendered = finish(text, template_name, str(template.filename), mentioned)
            return RenderOutcome(rendered, (), lookups.read, frozenset(lookups.missed))

    def _include(self, name: str) -> MappedText:
        template = self._environment.get_template(name)
        return self._environment.concat(template.root_render_func(template.new_context()))


def finish(text: MappedText, template_name: str, path: str, mentioned: frozenset[str]) -> Rendered:
    """Name the kernel by its source and flatten the map."""
    key = token_key(text)
    symbol = kernel_symbol(template_name, key)
    named = replace(text, KERNEL_NAME, symbol)
    whole = Site(SiteKind.TEXT, span(path, 0, 0, 0, 0), template_name)
    flat = source_map(named, whole)
    return Rendered(flat.text, flat, symbol, key, mentioned)


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
    )
    return variables
