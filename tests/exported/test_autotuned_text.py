"""The text of modules that choose among instances."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cases.export_case import exported_of
from cases.gemm_rows import CASES
from ckwatch.exported.autotuned_text import (
    AutotunedKernel,
    MeasuredShape,
    autotuned_name,
    autotuned_text,
    compared_sizes,
    library_names,
)
from ckwatch.exported.description import ExportedUnit, KernelSignature
from ckwatch.exported.module_text import write_files
from ckwatch.model.errors import CkwatchError
from exported.test_custom import PAIRS, PAIRS_SOURCE
from exported.test_module_text import exported


def tuned(*units: ExportedUnit, name: str = "tuned_gemm") -> AutotunedKernel:
    """An autotuned kernel of these units, with a shape for each and one more for the first."""
    names = library_names(name, [f"tile {number}" for number in range(len(units))])
    named = {
        instance: replace(unit, unit=f"gemm/{instance}@{unit.arch}", name=library)
        for (instance, library), unit in zip(names.items(), units, strict=True)
    }
    shapes = [
        MeasuredShape(
            shape=f'"{size}"', instance=instance, arguments={"M": size, "N": 8, "K": 8, "LDA": 8, "kBatch": slices},
            median_us=1234.56, device="hip:0, a card", taken_at=1e9,
        )
        for (instance, size, slices) in [*((one, 1024 + at, 1) for at, one in enumerate(named)), (next(iter(named)), 7, 4)]
    ]  # fmt: skip
    return AutotunedKernel(name=name, units=named, shapes=shapes)


def test_the_table_is_for_people() -> None:
    gemm = exported(CASES["f16"])
    about = ast.get_docstring(ast.parse(autotuned_text(tuned(gemm, gemm))))
    assert about is not None
    table = [line.split() for line in about.splitlines() if "shape  " in line or "hip:0" in line]
    assert table == [
        ["shape", "M", "N", "K", "kBatch", "instance", "median", "device", "measured"],
        *(
            [f'"{size}"', str(size), "8", "8", slices, "tile", tile, "1.235", "ms", "hip:0,", "a", "card", "2001-09-09"]
            for size, slices, tile in ((1024, "1", "0"), (1025, "1", "1"), (7, "4", "0"))
        ),
    ]


@pytest.mark.parametrize(
    ("unit", "sizes"),
    [
        (exported(CASES["f16"]), ("M", "N", "K")),
        (exported_of(PAIRS, "cpp", PAIRS_SOURCE, "symbol", {}), ("B", "N", "G")),
    ],
)
def test_sizes_that_are_compared(unit: ExportedUnit, sizes: tuple[str, ...]) -> None:
    assert compared_sizes(unit) == sizes


def test_instances_that_are_called_differently() -> None:
    gemm = exported(CASES["f16"])
    other = replace(gemm, signature=KernelSignature(gemm.signature.pointers, gemm.signature.scalars[:-1]))
    with pytest.raises(CkwatchError, match="take different arguments"):
        autotuned_text(tuned(gemm, other))


@pytest.mark.parametrize(
    ("kernel", "arch", "name"),
    [("gemm_f16", "host", "gemm_f16"), ("gemm_f16", "gfx942", "gemm_f16_gfx942"), ("json", "host", "json_kernel")],
)
def test_names_of_modules(kernel: str, arch: str, name: str) -> None:
    assert autotuned_name(kernel, arch) == name


def test_names_of_shared_objects_differ() -> None:
    assert library_names("m", ["a b", "a_b", "6x16"]) == {"a b": "m_a_b", "a_b": "m_a_b_2", "6x16": "m_6x16"}


CALLER = """
import tuned_gemm, tuned_hip
x: list[float] = []
y: list[float] = tuned_gemm.gemm(x, x, x, kBatch=2)
names: tuple[str, ...] = tuned_gemm.instances_for(M=1, N=2, K=3)
tuned_gemm.instances_for(M=1, N=2)
tuned_hip.gemm(x, x, x, x, x, stream=0)
"""


def test_types_and_no_dependencies(folder: Path) -> None:
    for name, case, language in (("tuned_gemm", "bf16 bias relu", "cpp"), ("tuned_hip", "f8 row scales", "hip")):
        unit = exported(CASES[case], language)
        write_files(folder, name, autotuned_text(tuned(unit, unit, name=name)), {})
    (folder / "caller.py").write_text(CALLER)
    options = ["--strict", "--config-file=", "--python-version", "3.10", "--no-incremental"]
    command = [sys.executable, "-m", "mypy", *options, *(path.name for path in sorted(folder.glob("*.py")))]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if "error:" in line]
    assert [line.partition(": ")[0] for line in lines] == ["caller.py:6"], done.stdout
    check = "import sys; sys.path.insert(0, '.'); import tuned_gemm, tuned_hip; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-I", "-S", "-W", "error", "-c", check], cwd=folder, check=True)
