"""Exported modules for tests: from an operation and a compiled source, imported under names of their own."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ckwatch.exported.autotuned_text import AutotunedKernel, autotuned_text
from ckwatch.exported.description import ExportedUnit, signature_of
from ckwatch.exported.module_text import write_files, write_module
from ckwatch.model.kernels import Operation, ParameterValue, Tensor
from ckwatch.model.targets import Language

Export = Callable[..., Any]
"""(case, language = "cpp") -> the imported module."""

ExportCustom = Callable[..., Any]
"""(operation, C++ text, language = "cpp") -> the imported module."""

ARCHS = {"cpp": "host", "hip": "gfx942", "cu": "sm_90"}

_numbers = itertools.count()


def exported_of(
    operation: Operation,
    language: str,
    text: str,
    symbol: str,
    parameters: Mapping[str, ParameterValue],
    **names: str,
) -> ExportedUnit:
    """Return the export of a source that was rendered and compiled. `names`: other fields than usual."""
    arch = names.pop("arch", ARCHS[language])
    kernel = names.pop("kernel", "gemm")
    return ExportedUnit(
        unit=f"{kernel}/instance@{arch}",
        kernel=kernel,
        arch=arch,
        language=Language(language),
        operation=operation,
        signature=signature_of(text, symbol, operation),
        symbol=symbol,
        key="0123456789abcdef",
        parameters=parameters,
        name=names.pop("name", f"exported_{next(_numbers)}"),
    )


def imported(exported: ExportedUnit, library: Path, folder: Path) -> Any:
    """Write the module to `folder` and import it from there."""
    _, path = write_module(exported, library.read_bytes(), folder)
    return imported_file(exported.name, path)


def imported_autotuned(kernel: AutotunedKernel, libraries: Mapping[str, bytes], folder: Path) -> Any:
    """Write the module and the shared object of each of its instances to `folder`, and import it from there."""
    written = {kernel.units[instance].library: library for instance, library in libraries.items()}
    return imported_file(kernel.name, write_files(folder, kernel.name, autotuned_text(kernel), written)[-1])


def imported_file(name: str, path: Path) -> Any:
    """The module at `path`."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def custom(
    inputs: Mapping[str, Tensor | None],
    outputs: Mapping[str, Tensor],
    sizes: tuple[str, ...],
    runtime: Mapping[str, str],
    **settings: ParameterValue,
) -> Operation:
    """An operation that is no GEMM; `runtime` gives C types."""
    return Operation(
        kind="custom",
        inputs=tuple(inputs.items()),
        outputs=tuple(outputs.items()),
        accumulator="f32",
        size_arguments=sizes,
        runtime_arguments=tuple(runtime),
        runtime_types=runtime,
        settings=settings,
    )


def tensor(name: str, dtype: str, sizes: tuple[str, ...], strides: tuple[str, ...], layout: str = "row") -> Tensor:
    """A tensor that has its buffer for itself."""
    return Tensor(name, dtype, layout, sizes, strides, name)
