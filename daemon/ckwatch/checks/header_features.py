"""Needs of a rendered unit that Composable Kernel's headers do not meet: its arch, a header, a feature that a
template needs, or a template parameter of a device operation.

Each is one sentence, and the first one is all that is said of a unit: whatever rules and compilers would say follows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ckwatch.checks.rules.checker import OPERATIONS
from ckwatch.checks.rules.instances import RenderedInstance, rendered_instances
from ckwatch.headers.features import (
    ANCHORS,
    ARCH_HEADERS,
    NEEDED_OF_HIP,
    lacking_arch,
    lacking_header,
    lacking_parameters,
    library_of,
)
from ckwatch.headers.includes import sure_includes
from ckwatch.headers.searched_headers import SearchedHeaders
from ckwatch.model.diagnostics import Diagnostic, Related, Severity, Source
from ckwatch.model.kernels import Unit
from ckwatch.model.text import Span
from ckwatch.render.outcome import Rendered, folders_of

NEEDED = re.compile(r'static_assert\(false, "((?:[^"\\]|\\.)*)"\);  // \[headers\] ?([\w. ]*)$', re.MULTILINE)
"""The output of the hook `need_feature`."""


def lacking_features(unit: Unit, rendered: Rendered, headers: SearchedHeaders) -> Diagnostic | None:
    """The error for the first feature that the unit needs and `headers` do not have, at its place in the kernel file.

    Nothing is said of a library of which there are no headers.
    """
    return next(_lacking(unit, rendered, headers), None)


def _lacking(unit: Unit, rendered: Rendered, headers: SearchedHeaders) -> Iterator[Diagnostic]:
    included = [name for _, _, name, _ in sure_includes(rendered.text) if library_of(name) in ARCH_HEADERS]
    own = SearchedHeaders((*rendered.folders, *folders_of([unit.kernel.path])))
    template = unit.kernel.template_span
    for library in dict.fromkeys(map(library_of, included)):
        header, folder = ARCH_HEADERS[library], headers.folder_of(ANCHORS[library])
        text = None if folder is None else headers.text(header)
        if folder is not None and text is not None and unit.arch.startswith("gfx"):
            sentence = lacking_arch(unit.arch, header, text, folder)
            if sentence:
                place = unit.kernel.arch_spans.get(unit.arch, template)
                yield _error(unit, "ck-arch", f"{sentence}. Templates without its headers compile.", place)
    yield from _lacking_names(unit, rendered, included, headers)
    for name in included:
        folder = headers.folder_of(ANCHORS[library_of(name)])
        if folder is not None and own.folder_of(name) is None and headers.text(name) is None:
            yield _error(unit, "ck-feature", lacking_header(name, folder), template)
    for found in NEEDED.finditer(rendered.text):
        message = re.sub(r"\\(.)", r"\1", found[1])
        spans = {**unit.kernel.operation_spans, **unit.instance.spans}
        place = next((spans[key] for key in found[2].split() if key in spans), template)
        origin = rendered.source_map.origin_of_range(found.start(), found.start() + 1)
        related = () if origin is None else (Related("the template needs it here", origin.span),)
        yield _error(unit, "ck-feature", message, place, related)
    for emitted in rendered_instances(rendered.text):
        sentence = _lacking_parameter(emitted, headers)
        if sentence:
            yield _error(unit, "ck-feature", sentence, template)


def _lacking_names(
    unit: Unit, rendered: Rendered, included: list[str], headers: SearchedHeaders
) -> Iterator[Diagnostic]:
    """The names of HIP that a header uses, and neither HIP's headers nor the text define."""
    for name, (header, feature) in NEEDED_OF_HIP.items():
        answer = headers.feature(feature)
        if answer.has or re.search(rf"#\s*define\s+{name}\b", rendered.text) or not _reads(included, header, headers):
            continue
        text = headers.text(header)
        if text is not None and text.mentions(name):
            yield _error(unit, "ck-feature", f"{header} uses `{name}`, and {answer.lacking}", unit.kernel.template_span)


def _reads(included: list[str], header: str, headers: SearchedHeaders) -> bool:
    """Return True if one of the headers `included` is `header`, or includes it in turn."""
    known = dict.fromkeys(included)
    for name in (waiting := list(known)):
        text = headers.text(name)
        for _, _, one, _ in () if text is None else sure_includes(text.text):
            if one not in known:
                known[one] = None
                waiting.append(one)
    return header in known


def _lacking_parameter(emitted: RenderedInstance, headers: SearchedHeaders) -> str:
    """Why the device operation cannot be given the arguments that the instance names; empty if it can."""
    operation = OPERATIONS.get(emitted.device_operation)
    folder = None if operation is None else headers.folder_of(ANCHORS[library_of(operation.header)])
    text = None if operation is None or folder is None else headers.text(operation.header)
    if operation is None or folder is None or text is None or text.parameters(operation.name) is None:
        return ""
    return lacking_parameters(operation.header, operation.name, tuple(emitted.arguments), text, folder)


def _error(unit: Unit, slug: str, message: str, span: Span, related: tuple[Related, ...] = ()) -> Diagnostic:
    return Diagnostic(Severity.ERROR, Source.RULE, f"rule/{slug}", message, span, related, units=(unit.id,))
