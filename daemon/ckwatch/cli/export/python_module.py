"""Builds a unit and writes its shared object, and a Python module that calls it on tensors."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from ckwatch.cli.build import NO_COMPILER, FinishedUnit, print_written
from ckwatch.cli.export.description import ExportedUnit, signature_of
from ckwatch.cli.export.module_text import checked_name, function_name, module_name, parameter_name, write_module
from ckwatch.cli.output import Output
from ckwatch.cli.session import connected, one_unit, start_of
from ckwatch.cli.signals import stoppable
from ckwatch.client import Client
from ckwatch.compile.store.entries import verified
from ckwatch.model.errors import CkwatchError, ToolchainError
from ckwatch.model.kernels import Operation, ParameterValue
from ckwatch.model.targets import Language, language_of
from ckwatch.workspace.loading import load_workspace

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.wire.state import Unit

UnitDefinition = tuple[Operation, Language, Mapping[str, ParameterValue]]
"""What a unit's module depends on besides the artifact."""


def export_module(options: argparse.Namespace) -> int:
    """Build the unit and write its module. 1 when the kernel does not compile, 2 when the compiler broke down."""
    if options.name is not None:
        checked_name(options.name)
    return anyio.run(partial(_run, options))


async def _run(options: argparse.Namespace) -> int:
    async with stoppable():
        start = await to_thread.run_sync(start_of, options, ())
        async with connected(options, start) as client:
            return await _export(options, client, Output(options, client.root))


async def _export(options: argparse.Namespace, client: Client, output: Output) -> int:
    word = await one_unit(client, options.unit)
    before = await to_thread.run_sync(_definition_of, client.root, word)
    ended = await _built(client, output, word)
    unit = ended.unit
    if ended.outcome == NO_COMPILER:
        problem = (await client.workspace()).toolchain_problem or ended.outcome
        message, _, hint = problem.rpartition("\n")
        raise ToolchainError(message or hint, hint if message else None)
    if ended.outcome != "built" or unit is None:
        output.diagnostics(ended.diagnostics)
        output.text(f"{word}: {ended.outcome}")
        return 1 if ended.outcome == "failed" else 2
    rendered = await client.rendered(word)
    after = await to_thread.run_sync(_definition_of, client.root, word)
    if rendered.text is None or rendered.symbol != unit.symbol or before != after:
        raise CkwatchError(f"{word} was edited while it was exported", "run the command again")
    exported = _exported(unit, rendered.text, after, options.name)
    folder = (options.out or Path()).absolute()
    shared_object = await to_thread.run_sync(verified, Path(unit.products["shared-object"]))
    for path in await to_thread.run_sync(write_module, exported, shared_object, folder):
        print_written(output, unit.id, path)
    function = function_name(exported)
    if output.json:
        from ckwatch.cli.json_output import ExportedModule

        output.line(ExportedModule(unit=unit.id, module=exported.name, function=function))
    else:
        arguments = ", ".join(parameter_name(name) for name, _ in exported.inputs) or "out=…"
        output.text(f"import {exported.name}; {exported.name}.{function}({arguments})")
    return 0


async def _built(client: Client, output: Output, unit: str) -> FinishedUnit:
    """The unit's end, its compile shown where a person looks on."""
    began = time.time()
    async with client.building(unit) as lines:
        first = await anext(lines)
        if output.json:
            found = [line async for line in lines if line.event == "unit"]
            return FinishedUnit(found[-1], began, check_only=False)
        from ckwatch.cli.progress import BuildProgress

        with BuildProgress(output, first.units) as progress:
            async with anyio.create_task_group() as tasks:
                if progress.moves:
                    tasks.start_soon(progress.follow, client)
                found = [line async for line in lines if line.event == "unit"]
                tasks.cancel_scope.cancel()
        return FinishedUnit(found[-1], began, check_only=False)


def _definition_of(root: Path, unit: str) -> UnitDefinition | None:
    """What the kernel file says of the unit now; None where it does not name it any more, or has mistakes."""
    name = unit.rpartition("@")[0]
    for kernel in load_workspace(root).kernels:
        for instance in kernel.instances:
            if f"{kernel.name}/{instance.name}" == name:
                return kernel.operation, language_of(kernel.template), instance.parameters
    return None


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
