"""The shared objects that `measurement` times: a CUTLASS GEMM of `examples/cuda`, built twice, and a slower variant.

The variant is the same GEMM with one threadblock behind it that waits for so many cycles of the device's clock as
`CKWATCH_DELAY_CYCLES` in the process's environment says at each launch: by how much it is slower can be set without
compiling anything, and follows the clock as the GEMM does.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from ckwatch.compile.builder import Builder
from ckwatch.compile.rendered_unit import compile_request
from ckwatch.compile.request import BuildOutcome, CompileRequest
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.toolchain.nvcc import find_nvcc
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import Shape, Unit
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.loading import Workspace, load_workspace

EXAMPLE = Path(__file__).parents[1] / "examples/cuda"
DELAY = "CKWATCH_DELAY_CYCLES"

_DELAYED = """
#include <cstdlib>

namespace {{
__global__ void wait_for(long long cycles) {{
    const long long begin = clock64();
    while (clock64() - begin < cycles) {{}}
}}
}}  // namespace

extern "C" PT_EXPORT int {symbol}_delayed({declarations}) {{
    const int status = {symbol}({names});
    if (status != 0 || workspace_size != nullptr) return status;
    const char* cycles = std::getenv("{variable}");
    wait_for<<<1, 1, 0, stream>>>(cycles == nullptr ? 0 : std::atoll(cycles));
    return cudaGetLastError();
}}
"""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A unit and what was built of it: `again` is another build of the source, `delayed` one of it with the variant."""

    unit: Unit
    symbol: str
    artifact: bytes
    again: bytes = b""
    delayed: bytes = b""

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of its kernel file."""
        return self.unit.kernel.shapes


def delayed_symbol(symbol: str) -> str:
    """The exported function of the slower variant."""
    return f"{symbol}_delayed"


def set_delay(cycles: int) -> None:
    """How long the variant waits from its next launch on."""
    os.environ[DELAY] = str(cycles)


async def build(kernels: dict[str, str], main: str, folder: Path) -> dict[str, Kernel]:
    """Build one instance of each kernel (`{kernel: instance}`), and twice and delayed the kernel `main`, side by side.

    Raises CkwatchError with the compiler's log when one does not compile, ToolchainError without nvcc.
    """
    toolchain = find_nvcc()
    if toolchain.cutlass is None:
        raise CkwatchError("CUTLASS's headers are not installed", "pip install nvidia-cutlass")
    print(f"nvcc {toolchain.version} ({toolchain.nvcc}), CUTLASS {toolchain.cutlass.version}", flush=True)
    workspace = load_workspace(EXAMPLE)
    renderer = Renderer(workspace.template_folders)
    asked: dict[tuple[str, str], CompileRequest] = {}
    units: dict[str, Unit] = {}
    for unit in workspace.units:
        if kernels.get(unit.kernel.name) != unit.instance.name:
            continue
        request = unit_request(workspace, renderer, unit)
        units[unit.kernel.name] = unit
        asked[unit.kernel.name, "artifact"] = request
        if unit.kernel.name == main:
            asked[main, "again"] = request
            asked[main, "delayed"] = delayed_request(request)
    missing = kernels.keys() - units.keys()
    if missing:
        raise CkwatchError(
            f"examples/cuda has no such instance: {', '.join(f'{name}/{kernels[name]}' for name in missing)}"
        )
    built: dict[tuple[str, str], bytes] = {}

    async def one(key: tuple[str, str], request: CompileRequest) -> None:
        # A store of its own: another build of the same source would be found in the first one's.
        with ArtifactStore(folder / f"store-{key[1]}") as store:
            result = await Builder(toolchain, store).build(request)
            built[key] = _shared_object(request, result)

    async with anyio.create_task_group() as tasks:
        for key, request in asked.items():
            tasks.start_soon(one, key, request)
    return {
        name: Kernel(
            unit,
            asked[name, "artifact"].symbol,
            built[name, "artifact"],
            built.get((name, "again"), b""),
            built.get((name, "delayed"), b""),
        )
        for name, unit in units.items()
    }


def unit_request(workspace: Workspace, renderer: Renderer, unit: Unit) -> CompileRequest:
    """What compiles a unit. Raises CkwatchError where it does not render."""
    outcome = renderer.render(unit)
    if outcome.rendered is None:
        raise CkwatchError(f"{unit.id} does not render: {'; '.join(found.message for found in outcome.diagnostics)}")
    return compile_request(workspace, unit, outcome.rendered)


def delayed_request(request: CompileRequest, variant: str = _DELAYED, variable: str = DELAY) -> CompileRequest:
    """The same source with the slower variant, of which `variant` is the text and `variable` names the environment's.

    Raises CkwatchError where the function is not found.
    """
    found = re.search(rf"\bint {request.symbol}\((.*?)\) {{", request.source, re.DOTALL)
    if found is None:
        raise CkwatchError(f"the source does not define {request.symbol} as it should")
    declarations = found[1]
    names = ", ".join(one.split()[-1].lstrip("*") for one in declarations.split(","))
    text = variant.format(symbol=request.symbol, declarations=declarations, names=names, variable=variable)
    return replace(request, source=request.source + text, more_exports=(delayed_symbol(request.symbol),))


def _shared_object(request: CompileRequest, result: BuildOutcome) -> bytes:
    artifact = result.artifact
    if not result.ok or artifact is None:
        raise CkwatchError(f"{request.kernel} does not compile: {result.message}\n{result.log[-4000:]}")
    return (artifact.folder / artifact.products["shared-object"]).read_bytes()
