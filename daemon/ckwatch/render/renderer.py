"""Renders one unit: from template, operation and instance to text, source map, diagnostics and files read.

Synchronous and bounded; it runs in a process of its own (`ckwatch.engine.render_pool`). An error in a template is a
value, never an exception.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import TemplateSyntaxError

from ckwatch.headers.searched_headers import SearchedHeaders, searched_headers
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.kernels import Unit
from ckwatch.model.parameter_types import ParameterDeclaration
from ckwatch.model.source_map import Site, SiteKind
from ckwatch.model.targets import language_of
from ckwatch.model.text import span
from ckwatch.render.environment import RenderLimitError, TemplateEnvironment
from ckwatch.render.further_errors import tolerating
from ckwatch.render.hook_calls import KernelNamespace, hooks_by_name
from ckwatch.render.hooks import DEVICE_CODE_NAME, GFX9_THREADS_PER_WARP, KERNEL_NAME, KernelHooks
from ckwatch.render.mapped_text import MappedText, replace
from ckwatch.render.outcome import Lookups, Rendered, RenderLimits, RenderOutcome, folders_of, map_of
from ckwatch.render.template_errors import RenderFailure, definitions_once, diagnostics_of
from ckwatch.render.tokens import device_text, kernel_symbol, token_key


class Renderer:
    """Renders units over one template search path, keeping compiled templates between calls.

    `on_lookup` gets what a render has looked up whenever that has grown. `header_folders` hold the headers that
    templates ask for features.
    """

    def __init__(
        self,
        folders: tuple[Path, ...],
        on_lookup: Callable[[Lookups], None] | None = None,
        *,
        header_folders: tuple[Path, ...] = (),
    ) -> None:
        self._environment = TemplateEnvironment(folders)
        self.header_folders = header_folders
        if on_lookup is not None:
            self._environment.on_lookup = on_lookup
        # The environment records what the current render reads, so two renders cannot share it at one time.
        self._lock = threading.Lock()

    def render(
        self, unit: Unit, limits: RenderLimits | None = None, overlays: Mapping[str, str] | None = None
    ) -> RenderOutcome:
        """Render `unit`; `overlays` (absolute path → text) replace files."""
        with self._lock, garbage_kept():
            try:
                return self._rendered(unit, limits or RenderLimits(), overlays or {})
            finally:
                self._environment.parsed.clear()

    def _rendered(self, unit: Unit, limits: RenderLimits, overlays: Mapping[str, str]) -> RenderOutcome:
        lookups = Lookups()
        headers = searched_headers(unit.kernel.flags, self.header_folders)
        try:
            text, path = self.expand(unit, limits, overlays, lookups, headers)
        except Exception as error:  # noqa: BLE001  # templates can raise anything; each becomes a diagnostic
            found = self._explained(error, unit, limits, overlays, lookups)
            missed = frozenset(lookups.missed)
            outcome = RenderOutcome(None, found, lookups.read, missed, *self._about_parameters(unit, lookups))
            return outcome.with_headers(headers)
        sources = self._environment.sources
        mentioned = frozenset[str]().union(*(sources[path].mentioned for path in lookups.read))
        folders = folders_of([path, *lookups.read])
        rendered = finish_render(text, unit.kernel.template, path, mentioned, folders)
        missed = frozenset(lookups.missed)
        outcome = RenderOutcome(rendered, (), lookups.read, missed, *self._about_parameters(unit, lookups))
        return outcome.with_headers(headers)

    def expand(
        self,
        unit: Unit,
        limits: RenderLimits,
        overlays: Mapping[str, str],
        lookups: Lookups,
        headers: SearchedHeaders | None = None,
    ) -> tuple[MappedText, str]:
        """The template's text with its origins, before the kernel has a name, and the template's path.

        Fills `lookups`, and `headers` with what was read of them. Raises whatever the template raises. One
        at a time, and in `garbage_kept`; `render` sees to it.
        """
        environment = self._environment
        environment.loader.overlays = dict(overlays)
        environment.lookups = lookups
        environment.start(limits.time_limit_s, limits.output_limit)
        operation, parameters = unit.kernel.operation, unit.instance.parameters
        headers = headers or SearchedHeaders(())
        include = partial(self._include, headers)
        hooks = KernelHooks(operation, parameters, language_of(unit.kernel.template), include, headers)
        template = environment.get_template(unit.kernel.template)
        context = template.new_context(context_of(unit, hooks))
        return environment.concat(template.root_render_func(context)), str(template.filename)

    def _about_parameters(
        self, unit: Unit, lookups: Lookups
    ) -> tuple[tuple[ParameterDeclaration, ...], dict[str, frozenset[str]]]:
        """Return the parameters that the templates declare, and which of them each template mentions."""
        # a template that cannot be parsed has been read, and has no source
        known = self._environment.sources
        sources = {path: known[path] for path in lookups.read if path in known}
        every = frozenset(unit.instance.parameters)
        mentions = {
            path: every if "parameters" in source.mentioned else every & source.mentioned
            for path, source in sources.items()
        }
        return tuple(one for source in sources.values() for one in source.declared), mentions

    def _explained(
        self,
        error: Exception,
        unit: Unit,
        limits: RenderLimits,
        overlays: Mapping[str, str],
        lookups: Lookups,
    ) -> tuple[Diagnostic, ...]:
        """The diagnostics of a render that failed: those of its error, and of the others that one more run finds."""
        environment = self._environment
        names = frozenset(context_of(unit, KernelHooks(unit.kernel.operation, {}, "hip", str)))
        found = dict.fromkeys(diagnostics_of(RenderFailure(error, unit, environment, names)))
        if isinstance(error, TemplateSyntaxError | RenderLimitError | RecursionError | MemoryError):
            return tuple(found)
        with tolerating(environment) as tolerated:
            self.expand(unit, limits, overlays, lookups)
        for other, places in tolerated:
            found.update(dict.fromkeys(diagnostics_of(RenderFailure(other, unit, environment, names), places)))
        by_place = {diagnostic.span: diagnostic for diagnostic in reversed(found)}
        once = [diagnostic for diagnostic in found if by_place[diagnostic.span] is diagnostic]
        return definitions_once(once, environment.sources_read)

    def _include(self, headers: SearchedHeaders, name: str) -> MappedText:
        template = self._environment.get_template(name)
        context = template.new_context({"has_feature": headers.has_feature})
        return self._environment.concat(template.root_render_func(context))


@contextmanager
def garbage_kept() -> Iterator[None]:
    """No collections while the body runs: they would look at each of the texts that a template makes.

    What the body made and is not needed is freed when it ends, if it is one call.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def finish_render(
    text: MappedText, template_name: str, path: str, mentioned: frozenset[str], folders: tuple[str, ...] = ()
) -> Rendered:
    """Name the kernel by its source and flatten the map."""
    key = token_key(text)
    symbol = kernel_symbol(template_name, key)
    named = replace(text, KERNEL_NAME, symbol)
    if DEVICE_CODE_NAME in text:
        named = replace(named, DEVICE_CODE_NAME, kernel_symbol(template_name, token_key(device_text(text))))
    whole = Site(SiteKind.TEXT, span(path, 0, 0, 0, 0), template_name)
    source_map = map_of(named, whole)
    return Rendered(source_map.text, source_map, symbol, key, mentioned, folders)


def context_of(unit: Unit, hooks: KernelHooks) -> dict[str, Any]:
    """The variables a template sees."""
    operation = unit.kernel.operation
    variables: dict[str, Any] = dict(unit.instance.parameters)
    variables.update(operation.inputs)
    variables.update(operation.outputs)
    by_name = hooks_by_name(hooks)
    variables.update(by_name)
    variables.update(
        kernel=KernelNamespace(**by_name),
        operation=operation,
        parameters=unit.instance.parameters,
        arch=unit.arch,
        input_reorder=operation.settings.get("input_reorder"),
        KERNEL_NAME=KERNEL_NAME,
        DEVICE_CODE_NAME=DEVICE_CODE_NAME,
        kernel_name=KERNEL_NAME,
        gfx9_threads_per_warp=GFX9_THREADS_PER_WARP,
    )
    return variables
