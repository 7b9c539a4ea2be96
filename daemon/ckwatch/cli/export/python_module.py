"""Builds a unit and writes its shared object, and a Python module that calls it on tensors."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread

from ckwatch.cli.build import print_written
from ckwatch.cli.build_results import NO_COMPILER, FinishedUnit
from ckwatch.cli.output import Output
from ckwatch.cli.session import one_unit
from ckwatch.client import Client
from ckwatch.compile.store.entries import verified
from ckwatch.exported.description import ExportedUnit, signature_of
from ckwatch.exported.module_text import function_name, module_name, parameter_name, write_module
from ckwatch.model.errors import CkwatchError, ToolchainError
from ckwatch.model.kernels import Operation, ParameterValue
from ckwatch.model.targets import Language, language_of
from ckwatch.workspace.loading import load_workspace

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.wire.state import Unit

UnitDefinition = tuple[Operation, Language, Mapping[str, ParameterValue]]
"""The parts of a unit, besides the artifact, that its module depends on."""


async def export_module(options: argparse.Namespace, client: Client, output: Output) -> int:
    """Build the unit and write its module. 1 when the kernel does not compile, 2 when the compiler broke down."""
    word = await one_unit(client, options.unit)
    built = await exported_units(client, output, {word: options.name})
    if isinstance(built, int):
        return built
    exported, shared_object = built[word]
    folder = (options.out or Path()).absolute()
    for path in await to_thread.run_sync(write_module, exported, shared_object, folder):
        print_written(output, exported.unit, path)
    function = function_name(exported)
    output.answer(event="module", unit=exported.unit, module=exported.name, function=function)
    output.text(call_line(exported, exported.name))
    return 0


def call_line(exported: ExportedUnit, module: str) -> str:
    """How a module is imported and called."""
    arguments = ", ".join(parameter_name(name) for name, _ in exported.inputs) or "out=…"
    return f"import {module}; {module}.{function_name(exported)}({arguments})"


async def exported_units(
    client: Client, output: Output, names: Mapping[str, str | None]
) -> dict[str, tuple[ExportedUnit, bytes]] | int:
    """Build units, and what is exported of each with its shared object; `names` are those of the modules, by unit.

    Where one cannot be built, the exit status, and its messages are printed. Raises CkwatchError for one that is edited
    meanwhile.
    """
    before = await to_thread.run_sync(_definitions_of, client.root, tuple(names))
    found: dict[str, tuple[Unit, str]] = {}
    for ended in await _built(client, output, tuple(names)):
        unit, name = ended.unit, ended.id
        if ended.outcome == NO_COMPILER:
            raise ToolchainError.of((await client.workspace()).toolchain_problem or ended.outcome)
        if ended.outcome != "built" or unit is None:
            output.diagnostics(ended.diagnostics)
            output.text(f"{name}: {ended.outcome}")
            return 1 if ended.outcome == "failed" else 2
        rendered = await client.rendered(name)
        if rendered.text is None or rendered.symbol != unit.symbol:
            raise _edited(name)
        found[name] = (unit, rendered.text)
    after = await to_thread.run_sync(_definitions_of, client.root, tuple(names))
    exported = {}
    for name, given in names.items():
        if name not in found or before.get(name) != after.get(name):
            raise _edited(name)
        unit, text = found[name]
        shared_object = await to_thread.run_sync(verified, Path(unit.products["shared-object"]))
        exported[name] = (_exported(unit, text, after.get(name), given), shared_object)
    return exported


def _edited(unit: str) -> CkwatchError:
    return CkwatchError(f"{unit} was edited while it was exported", "run the command again")


async def _built(client: Client, output: Output, units: Sequence[str]) -> list[FinishedUnit]:
    """The units' ends, their compiles shown where a person looks on."""
    began = time.time()
    async with client.building(*map(escape, units)) as lines:
        first = await anext(lines)
        if output.json:
            found = [line async for line in lines if line.event == "unit"]
        else:
            from ckwatch.cli.progress import build_progress

            async with build_progress(client, output, first.units):
                found = [line async for line in lines if line.event == "unit"]
        return [FinishedUnit(line, began, check_only=False) for line in found]


def _definitions_of(root: Path, units: Sequence[str]) -> dict[str, UnitDefinition]:
    """Return the present definitions of units in kernel files, without units that are no longer named or have
    errors."""
    wanted = {unit.rpartition("@")[0]: unit for unit in units}
    found: dict[str, UnitDefinition] = {}
    for kernel in load_workspace(root).kernels:
        for instance in kernel.instances:
            unit = wanted.get(f"{kernel.name}/{instance.name}")
            if unit is not None:
                found[unit] = kernel.operation, language_of(kernel.template), instance.parameters
    return found


def _exported(unit: Unit, text: str, meaning: UnitDefinition | None, name: str | None) -> ExportedUnit:
    if meaning is None or unit.symbol is None:
        raise CkwatchError(f"{unit.id} is no longer in the workspace")
    operation, language, parameters = meaning
    return ExportedUnit(
        unit=unit.id,
        kernel=unit.kernel,
        arch=unit.arch,
        language=language,
        operation=operation,
        signature=signature_of(text, unit.symbol, operation),
        symbol=unit.symbol,
        key=unit.key or "",
        parameters=parameters,
        name=name or module_name(unit.kernel, unit.instance, unit.arch),
    )
