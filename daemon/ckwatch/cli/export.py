"""`ckwatch build --out DIR`: products, object files and standalone runners in a folder of the user's."""

from __future__ import annotations

import argparse
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

from anyio import TemporaryDirectory, to_thread

from ckwatch.build.report import BuildReport, UnitReport
from ckwatch.cli.output import Output
from ckwatch.compile.request import CompilerToolchain, ProductKind
from ckwatch.compile.runner import build_runner
from ckwatch.errors import CkwatchError, TemplateError
from ckwatch.model.kernel import ParameterValue, Unit
from ckwatch.model.language import Language, language_of
from ckwatch.model.outcome import Outcome
from ckwatch.render.process import RenderPool

SUFFIXES = {ProductKind.SHARED_OBJECT: ".so", ProductKind.CODE_OBJECT: ".hsaco", ProductKind.OBJECT: ".o"}
RUNNERS = {Language.HIP: "runner/gemm_runner.hip.j2", Language.CPP: "runner/gemm_runner.cpp.j2"}
DEFAULT_SIZES: dict[str, ParameterValue] = {"M": 1024, "N": 1024, "K": 1024, "kBatch": 1}


async def export(
    options: argparse.Namespace,
    renderers: RenderPool,
    toolchain: CompilerToolchain,
    report: BuildReport,
    output: Output,
) -> None:
    """Copy the products of every unit that was built. Raises CkwatchError when the folder cannot be written."""
    folder: Path = options.out.absolute()
    kinds = [ProductKind.SHARED_OBJECT, ProductKind.CODE_OBJECT, *([ProductKind.OBJECT] if options.aot else [])]
    for unit_report in report.units:
        if unit_report.outcome is not Outcome.BUILT:
            continue
        written = await to_thread.run_sync(partial(_copy, unit_report, folder, kinds))
        if options.runner:
            written.append(await _runner(unit_report, renderers, toolchain, folder))
        for path in written:
            if output.json:
                output.line(event="file", unit=unit_report.unit.id, path=str(path))
            else:
                output.text(f"wrote {path}")


def _stem(unit: Unit, folder: Path) -> Path:
    return folder / unit.kernel.name / f"{unit.instance.name}@{unit.arch.replace(':', '-')}"


def _copy(report: UnitReport, folder: Path, kinds: list[ProductKind]) -> list[Path]:
    assert report.artifact is not None  # noqa: S101  # a built unit has one
    stem = _stem(report.unit, folder)
    written = []
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        for kind in kinds:
            source = report.artifact.product(kind.value)
            if source is not None:
                target = stem.with_name(stem.name + SUFFIXES[kind])
                partial_copy = target.with_name(target.name + ".partial")
                shutil.copyfile(source, partial_copy)
                partial_copy.replace(target)
                written.append(target)
    except OSError as error:
        raise CkwatchError(f"cannot write to {folder}: {error.strerror}") from error
    return written


async def _runner(report: UnitReport, renderers: RenderPool, toolchain: CompilerToolchain, folder: Path) -> Path:
    unit = report.unit
    assert report.artifact is not None  # noqa: S101
    assert report.rendered is not None  # noqa: S101
    language = language_of(unit.kernel.template)
    if unit.kernel.operation.kind != "gemm":
        raise CkwatchError(
            f"'{unit.kernel.name}' is a {unit.kernel.operation.kind} operation: only GEMMs have a standalone runner",
            "build it without --runner",
        )
    shape = unit.kernel.shapes[0] if unit.kernel.shapes else None
    sizes = DEFAULT_SIZES if shape is None else {**DEFAULT_SIZES, **shape.sizes, **shape.runtime}
    parameters = {name: sizes[name] for name in DEFAULT_SIZES} | {"symbol": report.rendered.symbol}
    runner = replace(
        unit,
        kernel=replace(unit.kernel, template=RUNNERS[language]),
        instance=replace(unit.instance, parameters=parameters),
    )
    outcome = await renderers.render(runner)
    if outcome.rendered is None:
        raise TemplateError(outcome.diagnostics)
    object_file = report.artifact.product(ProductKind.OBJECT.value)
    assert object_file is not None  # noqa: S101  # every build leaves one
    target = _stem(unit, folder).with_name(_stem(unit, folder).name + ".run")
    async with TemporaryDirectory(prefix="ckwatch-runner-") as work:
        await build_runner(outcome.rendered.text, language, object_file, toolchain, folder=Path(work), output=target)
    return target
