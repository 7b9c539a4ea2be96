"""What line tables beside an artifact cost, and that they change nothing else.

Shipped units of each kind are compiled with line tables and without, in turns, each from an empty store and with the
same precompiled headers. All files of both artifacts must be equal, byte by byte, but for the code object with line
tables; the program fails where they are not. Times are processor seconds of all compiler processes.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import anyio

from benchmarks.choosing import alone, asked_runs
from benchmarks.gemm_example import ARCH
from benchmarks.process_tree import processor_s
from benchmarks.reporting import DAEMON_CODE, Row, row
from ckwatch.client import connect
from ckwatch.compile.build_events import BuildOptions
from ckwatch.compile.builder import Builder
from ckwatch.compile.request import CompileRequest
from ckwatch.compile.staged_build import HEADERS_WORTH, StagedCompiler
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.entries import Artifact, ProductKind
from ckwatch.compile.toolchain.discover import discover
from ckwatch.model.errors import CkwatchError
from ckwatch.model.targets import Language
from ckwatch.system.async_processes import run_process

MEASURED_CODE = (*DAEMON_CODE, "daemon/ckwatch/compile", "templates")

EXAMPLES = Path(__file__).parent.parent / "examples"
UNITS = (
    ("transpose", "transpose_f16/tile32", ("gfx90a", "gfx942", "gfx950", "gfx1100")),
    ("softmax", "softmax_f16/block256", ("gfx90a", "gfx942", "gfx950", "gfx1100")),
    ("ck_tile", "gemm_bf16_bias_gelu/v3_128x128x64", ("gfx942", "gfx950")),
    ("gemm", "gemm_f16/v3_128x128x64_intrawave", ("gfx90a", "gfx942", "gfx950")),
)
"""The example, the unit without its arch, and the archs."""


async def request_of(example: str, unit: str) -> CompileRequest:
    """The compile of a unit, whose text is the same for all archs."""
    async with connect(EXAMPLES / example, private=True, trust=True) as client:
        rendered = await client.rendered(f"{unit}@{ARCH}")
    if rendered.text is None or rendered.symbol is None:
        raise CkwatchError(f"{unit} renders to nothing")
    return CompileRequest(rendered.text, rendered.symbol, Language.HIP, ARCH, kernel=unit.partition("/")[0])


def differing(lined: Artifact, bare: Artifact) -> list[str]:
    """Products that are not the same in both."""
    kinds = {*lined.products, *bare.products} - {ProductKind.LINE_TABLES.value}
    return [kind for kind in kinds if lined.files[lined.products[kind]] != bare.files[bare.products[kind]]]


async def compared(request: CompileRequest, runs: int) -> tuple[list[float], list[float], int, int]:
    """Processor seconds with line tables and without, and the bytes of both artifacts."""
    times: dict[bool, list[float]] = {True: [], False: []}
    artifacts: dict[bool, Artifact] = {}
    options = BuildOptions(force=True, waiting=HEADERS_WORTH)  # the first compile makes the headers
    with tempfile.TemporaryDirectory() as name, ArtifactStore(Path(name)) as store:
        toolchain = discover()
        ladder = StagedCompiler(toolchain, store, run_process)
        builder = Builder(toolchain, store, make_ladder=lambda: ladder)
        await builder.build(request, options)
        for number in range(runs):
            for lines in (True, False) if number % 2 == 0 else (False, True):
                begun = processor_s(own=True)
                built = await builder.build(replace(request, lines=lines), options)
                times[lines].append(processor_s(own=True) - begun)
                if built.artifact is None or (ProductKind.LINE_TABLES in built.artifact.products) != lines:
                    raise CkwatchError("no line tables, or unasked ones", built.log or built.message)
                artifacts[lines] = built.artifact
            if different := differing(artifacts[True], artifacts[False]):
                raise CkwatchError(f"line tables change {', '.join(different)}")
        return times[True], times[False], artifacts[True].size_bytes, artifacts[False].size_bytes


async def compare(runs: int) -> list[Row]:
    """A row for each unit."""
    rows = []
    for example, unit, archs in UNITS:
        request = await request_of(example, unit)
        for arch in archs:
            mine, others, with_lines, without = await compared(replace(request, arch=arch), runs)
            what = f"a compile of {unit}@{arch} with line tables beside it"
            rows.append(row(what, mine, others, reference_name="without", unit="s", goal="reported"))
            print(f"{unit}@{arch}: the same but for its lines; {with_lines:,} and {without:,} bytes", flush=True)
    return rows


def measure() -> list[Row]:
    """Thirteen rows."""
    return anyio.run(compare, asked_runs())


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
