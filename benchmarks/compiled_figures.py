"""Compile the instances of AITER's `a8w8_rowwise` and store the figures that predictions read.

    nice python -m benchmarks.compiled_figures [--dtype i8] [--arch gfx950]     compiles what has no result yet

The kernel files are those in `results/aiter.json`. Each instance goes through the device pass of the real compiler,
half a minute each; what `ckwatch inspect` would read of its code object is stored as soon as it is there, in
`results/compiled_figures.json`: of the kernel that does the work its resources, its occupancy and its main loop,
without texts. `reports` reads them back for `benchmarks.predictions`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import anyio

from benchmarks.aiter import Instances
from benchmarks.aiter import load as load_aiter
from benchmarks.mutated_instances import RESULTS, hipcc_error
from ckwatch.codeobject.occupancy import occupancy_of
from ckwatch.codeobject.report import (
    CodeObjectReport,
    KernelReport,
    KernelResources,
    MainLoop,
    main_kernel,
)
from ckwatch.codeobject.tools.analyze import analyze
from ckwatch.compile.toolchain.discover import discover

PATH = RESULTS / "compiled_figures.json"

RESOURCES = (
    *("vgprs", "agprs", "sgprs", "vgpr_spills", "sgpr_spills", "scratch_bytes"),
    *("lds_bytes", "workgroup_size", "wavefront_size", "kernarg_bytes"),
)
"""Stored fields of a kernel's resources."""

LOOP = (
    *("mix", "lds_read_bytes", "lds_write_bytes", "global_load_bytes", "global_store_bytes"),
    *("flops", "clocks", "matrix_use"),
)
"""And of its main loop."""


def reports(dtype: str, arch: str, path: Path = PATH) -> dict[str, CodeObjectReport]:
    """The stored reports by the instances' names."""
    stored = load(path)
    ending = f"@{arch}"
    begin = f"a8w8_rowwise_{dtype}/"
    return {
        key.removeprefix(begin).removesuffix(ending): report_of(figures, arch)
        for key, figures in stored.items()
        if key.startswith(begin) and key.endswith(ending) and "error" not in figures
    }


def report_of(figures: Mapping[str, Any], arch: str) -> CodeObjectReport:
    """A report of one kernel, with what was stored of it."""
    resources = KernelResources(symbol="", name=str(figures["kernel"]), **figures["resources"])
    found = figures["loop"]
    loop = None if found is None else MainLoop(first=0, last=0, **found)
    kernel = KernelReport(resources=resources, occupancy=occupancy_of(resources, arch), loop=loop)
    return CodeObjectReport(arch=arch, kernels=(kernel,))


def figures_of(report: CodeObjectReport) -> dict[str, Any]:
    """The stored part of a report."""
    kernel = main_kernel(report)
    if kernel is None:
        return {"error": "; ".join(report.notes) or "no kernel"}
    resources = asdict(kernel.resources)
    loop = None if kernel.loop is None else asdict(kernel.loop)
    return {
        "kernel": kernel.resources.name,
        "resources": {name: resources[name] for name in RESOURCES},
        "loop": None if loop is None else {name: loop[name] for name in LOOP},
    }


def collect(dtype: str, arch: str, path: Path, limit: int | None) -> None:
    """Compile and analyse the instances that have no result yet; all are rendered first."""
    toolchain = discover()
    kernel = f"a8w8_rowwise_{dtype}"
    instances = Instances({kernel: load_aiter()["kernels"][kernel]})
    units = {f"{name}@{arch}": replace(unit, arch=arch) for name, unit in instances.units.items()}
    stored = load(path)
    todo = [name for name in units if name not in stored][:limit]
    rendered = {name: instances.outcome(units[name]).rendered for name in todo}
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "unit.o"
        for number, (name, text) in enumerate(rendered.items(), 1):
            begun_s = time.monotonic()
            if text is None:
                figures: dict[str, Any] = {"error": "does not render"}
            else:
                options = ("--no-gpu-bundle-output", "-c", "-o", str(target))
                error = hipcc_error(text.text, arch, "device", toolchain, Path(folder), *options)
                figures = {"error": error} if error else figures_of(anyio.run(analyze, target, toolchain, arch))
            stored[name] = figures
            save(stored, path)
            print(
                f"{number}/{len(todo)} {name} {time.monotonic() - begun_s:.0f} s {figures.get('error', '')}", flush=True
            )


def load(path: Path = PATH) -> dict[str, Any]:
    """The stored figures by unit."""
    return dict(json.loads(path.read_text())) if path.exists() else {}


def save(stored: Mapping[str, Any], path: Path) -> None:
    """Write the figures, whole or not at all; one unit a line."""
    temporary = path.with_suffix(".tmp")
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(figures)}" for name, figures in stored.items())
    temporary.write_text(f"{{\n{lines}\n}}\n")
    temporary.replace(path)


def main() -> int:
    """The exit status: 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", choices=("i8", "f8"), default="i8")
    parser.add_argument("--arch", default="gfx950")
    parser.add_argument("--limit", type=int, help="compile at most this many instances")
    parser.add_argument("--out", type=Path, default=PATH)
    options = parser.parse_args()
    collect(options.dtype, options.arch, options.out, options.limit)
    return 0


if __name__ == "__main__":
    sys.exit(main())
