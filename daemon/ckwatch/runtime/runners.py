"""Standalone programs that run, verify and time one unit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from anyio import TemporaryDirectory, to_thread

from ckwatch.compile.request import CompilerToolchain, ProductKind
from ckwatch.compile.runner import build_runner
from ckwatch.errors import CkwatchError, TemplateError
from ckwatch.model.kernel import ParameterValue, Unit
from ckwatch.model.language import Language, language_of
from ckwatch.render.process import RenderPool
from ckwatch.store import verified
from ckwatch.wire.messages import Artifact

RUNNERS = {Language.HIP: "runner/gemm_runner.hip.j2", Language.CPP: "runner/gemm_runner.cpp.j2"}
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
    if language not in RUNNERS:
        raise CkwatchError(
            f"'{unit.kernel.name}' is a .{language} template: there is no standalone runner for it",
            "`ckwatch bench` runs and verifies it; `ckwatch export` makes a Python module of it",
        )
    shape = unit.kernel.shapes[0] if unit.kernel.shapes else None
    sizes = DEFAULT_SIZES if shape is None else {**DEFAULT_SIZES, **shape.sizes, **shape.runtime}
    parameters = {name: sizes[name] for name in DEFAULT_SIZES} | {"symbol": artifact.symbol}
    runner = replace(
        unit,
        kernel=replace(unit.kernel, template=RUNNERS[language]),
        instance=replace(unit.instance, parameters=parameters),
    )
    outcome = await renderers.render(runner)
    if outcome.rendered is None:
        raise TemplateError(outcome.diagnostics)
    object_file = Path(artifact.products[ProductKind.OBJECT.value])
    await to_thread.run_sync(verified, object_file)
    async with TemporaryDirectory(prefix="ckwatch-runner-") as work:
        await build_runner(outcome.rendered.text, language, object_file, toolchain, folder=Path(work), output=target)
