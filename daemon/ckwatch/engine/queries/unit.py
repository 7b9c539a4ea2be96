"""One unit in detail: its rendered text and source map, its artifact, its status, and a standalone runner."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from anyio import TemporaryDirectory, to_thread

from ckwatch.compile.request import CompilerToolchain, ProductKind
from ckwatch.compile.standalone_runner import build_runner
from ckwatch.compile.store.entries import Artifact as Stored
from ckwatch.compile.store.entries import artifact_from_json, verified
from ckwatch.core.state import Phase, UnitState
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.to_wire import diagnostic_to_wire, span_to_wire
from ckwatch.model.errors import CkwatchError, TemplateError
from ckwatch.model.kernels import Outcome, ParameterValue, Unit
from ckwatch.model.source_map import Segment, SourceMap
from ckwatch.model.targets import Language, language_of
from ckwatch.render.outcome import RenderOutcome
from ckwatch.render.worker_pool import RenderPool
from ckwatch.wire.messages import Artifact, ChainLink, RenderedText
from ckwatch.wire.messages import Segment as WireSegment

RUNNER_TEMPLATES = {Language.HIP: "runner/gemm_runner.hip.j2", Language.CPP: "runner/gemm_runner.cpp.j2"}
DEFAULT_SIZES: dict[str, ParameterValue] = {"M": 1024, "N": 1024, "K": 1024, "kBatch": 1}


async def write_runner(
    unit: Unit, artifact: Artifact, renderers: RenderPool, toolchain: CompilerToolchain, target: Path
) -> None:
    """Write the program to `target`. Its default sizes are those of the kernel file's first shape.

    Raises CkwatchError for an operation without a runner, or where `target` cannot be written, and LostArtifactError.
    """
    language = language_of(unit.kernel.template)
    if unit.kernel.operation.kind != "gemm":
        raise CkwatchError(
            f"'{unit.kernel.name}' is a {unit.kernel.operation.kind} operation: only GEMMs have a standalone runner",
            "build it without --runner",
        )
    if language not in RUNNER_TEMPLATES:
        raise CkwatchError(
            f"'{unit.kernel.name}' is a .{language} template: there is no standalone runner for it",
            "`ckwatch bench` runs and verifies it; `ckwatch export` makes a Python module of it",
        )
    shape = unit.kernel.shapes[0] if unit.kernel.shapes else None
    sizes = DEFAULT_SIZES if shape is None else {**DEFAULT_SIZES, **shape.sizes, **shape.runtime}
    parameters = {name: sizes[name] for name in DEFAULT_SIZES} | {"symbol": artifact.symbol}
    runner = replace(
        unit,
        kernel=replace(unit.kernel, template=RUNNER_TEMPLATES[language]),
        instance=replace(unit.instance, parameters=parameters),
    )
    outcome = await renderers.render(runner)
    if outcome.rendered is None:
        raise TemplateError(outcome.diagnostics)
    object_file = Path(artifact.products[ProductKind.OBJECT.value])
    await to_thread.run_sync(verified, object_file)
    async with TemporaryDirectory(prefix="ckwatch-runner-") as work:
        await build_runner(outcome.rendered.text, language, object_file, toolchain, folder=Path(work), output=target)


LOG_READ_BYTES = 1_000_000


def rendered_to_wire(unit: str, outcome: RenderOutcome, with_map: bool) -> RenderedText:  # for a thread
    """A render as an answer."""
    text = outcome.rendered
    return RenderedText(
        unit=unit,
        text=None if text is None else text.text,
        symbol=None if text is None else text.symbol,
        token_key=None if text is None else text.token_key,
        diagnostics=tuple(diagnostic_to_wire(one, stale=False) for one in outcome.diagnostics),
        read=dict(outcome.read),
        missed=tuple(sorted(outcome.missed)),
        map=None
        if text is None or not with_map
        else tuple(_segment(text.source_map, s) for s in text.source_map.segments),
    )


def _segment(source_map: SourceMap, segment: Segment) -> WireSegment:
    position: Any = {"line": segment.position.line, "column": segment.position.column}
    return WireSegment.model_construct(
        start=segment.start,
        end=segment.end,
        verbatim=segment.verbatim,
        exact=segment.exact,
        position=position,
        span=span_to_wire(segment.site.span),
        label=segment.site.label,
        chain=tuple(
            ChainLink.model_construct(
                kind=link.site.kind.value,
                label=link.site.label,
                iteration=link.iteration if link.iteration >= 0 else None,
                span=span_to_wire(link.site.span),
            )
            for link in source_map.chain(segment.frame)
        ),
    )


def artifact_to_wire(unit: UnitState, tools: BuildTools) -> Artifact | None:
    """The stored result of the unit; None when there is none, or it was evicted."""
    result, compiler, store = unit.result, tools.compiler, tools.store
    if result is None or not result.key or compiler is None or store is None:
        return None
    stored: Stored | None = None
    product = next(iter(result.products.values()), None)
    try:
        if product is not None:
            folder = Path(product).parent
            stored = artifact_from_json((folder / "meta.json").read_bytes(), folder)
        else:
            stored = store.lookup(result.key, compiler.roots)
        if stored is None:
            return None
        return Artifact(
            unit=unit.key.unit,
            key=result.key,
            fresh=unit.fresh,
            outcome="built" if stored.ok else "failed",
            folder=str(stored.folder),
            symbol=stored.record.symbol,
            products={name: str(stored.folder / file) for name, file in stored.products.items()},
            commands=tuple(tuple(command.arguments) for command in stored.record.commands),
            log=stored.log,
        )
    except (OSError, ValueError):
        return None


def status_text(unit: UnitState, toolchain_problem: str | None) -> str:
    """The unit's state in a sentence."""
    match unit.phase:
        case Phase.WAITING | Phase.RENDERING:
            return "being rendered"
        case Phase.LOOKING:
            return "rendered; looking into the store"
        case Phase.QUEUED:
            return "waiting for a free compiler"
        case Phase.COMPILING:
            return "being compiled"
        case Phase.IDLE if toolchain_problem is not None:
            return "checked; there is no compiler"
        case Phase.IDLE:
            return "checked; not compiled, because nobody has asked for it since it changed"
    if unit.render is not None and not unit.render.ok:
        return "refused before any compiler ran: the template or the instance has errors"
    if unit.outcome is Outcome.FAULTED:
        return "the host failed; nothing was learned of the kernel"
    if unit.outcome is Outcome.FAILED:
        return "the compiler found errors"
    return "built: nothing to do"


def log_tail(log_file: Path | None, lines: int) -> str:
    """The last lines of the log."""
    if log_file is None:
        return ""
    try:
        with log_file.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - LOG_READ_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:]) if lines > 0 else ""
