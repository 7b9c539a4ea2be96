"""Why a kernel spills, with the real hipcc: what is said, where, and that the fix is what was compiled."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from ckwatch.core.events import MAIN
from ckwatch.engine.bootstrap import open_engine
from ckwatch.model.diagnostics import Diagnostic, Severity
from ckwatch.model.text import LineIndex

pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(1200)]

KERNEL = """\
template = "tile.hip.j2"
archs = ["gfx942", "gfx1100"]
[operation]
kind = "custom"
sizes = ["M", "N", "K"]
[[operation.input]]
name = "X"
dtype = "f32"
sizes = ["M", "K"]
[[operation.input]]
name = "W"
dtype = "f32"
sizes = ["K", "N"]
[[operation.output]]
name = "Y"
dtype = "f32"
sizes = ["M", "N"]
[[instance]]
name = "tile"
Tile = 13
Side = 16
"""
TEMPLATE = """\
{#
  Tile (integer from 1 to 32): rows and columns of a lane
  Side (integer from 1 to 32): threads along a side of the workgroup
#}
{{ header("hip") }}
{{ globals("hip") }}
namespace {
constexpr int T = {{ Tile }}, S = {{ Side }}, B = T * S;
__global__ void outer(const float* a, const float* b, float* c, int n, int k) {
  const int tx = threadIdx.x, ty = threadIdx.y;
  float acc[T][T] = {};
  for (int q = 0; q < k; ++q) {
    float ra[T], rb[T];
    for (int i = 0; i < T; ++i) ra[i] = a[(blockIdx.y * B + ty * T + i) * k + q];
    for (int j = 0; j < T; ++j) rb[j] = b[q * n + blockIdx.x * B + tx * T + j];
    for (int i = 0; i < T; ++i)
      for (int j = 0; j < T; ++j) acc[i][j] += ra[i] * rb[j];
  }
  for (int i = 0; i < T; ++i)
    for (int j = 0; j < T; ++j) c[(blockIdx.y * B + ty * T + i) * n + blockIdx.x * B + tx * T + j] = acc[i][j];
}
}
extern "C" PT_EXPORT {{ kernel.def_kernel(inputs=[X, W], outputs=[Y]) }} {
  if (workspace_size) { *workspace_size = 0; return 0; }
  outer<<<dim3(N / B, M / B), dim3(16, 16), 0, stream>>>(X, W, Y, N, K);
  return hipGetLastError();
}
"""


@pytest.fixture
def root(trusted: Path, tmp_path: Path) -> Path:
    (tmp_path / "ckwatch.toml").write_text("")
    (tmp_path / "tile.kernel.toml").write_text(KERNEL)
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates/tile.hip.j2").write_text(TEMPLATE)
    return tmp_path


async def advised(root: Path) -> dict[str, Diagnostic]:
    """What is said of the kernel's registers by unit, after a build."""
    async with open_engine(root, history=root / "history.sqlite") as daemon:
        async with daemon.builds.build(MAIN, None, force=False, check_only=False) as lines:
            built = [line.unit.outcome async for line in lines if line.unit is not None]
        assert set(built) == {"built"}
        found = await daemon.advice.advice(MAIN, None)
        with anyio.fail_after(60):
            while (await daemon.status()).busy:  # noqa: ASYNC110  # the history is written last
                await anyio.sleep(0.01)
    return {one.units[0]: one for one in found if one.code == "performance/launch-bounds"}


async def test_a_kernel_without_bounds_spills_and_is_told_of_that_of_its_launch(root: Path) -> None:
    found = await advised(root)

    assert found.keys() == {"tile/tile@gfx942", "tile/tile@gfx1100"}
    template = root / "templates/tile.hip.j2"
    lines = LineIndex(TEMPLATE)
    for one in found.values():
        start, end = lines.offset(one.span.start), lines.offset(one.span.end)
        assert (one.severity, one.span.path) == (Severity.INFORMATION, str(template))
        assert TEMPLATE[start:end] == "outer"
        assert "compiled with `__launch_bounds__(256)`: VGPR " in one.message
        assert "scratch " in one.message
        (fix,) = one.fixes
        at = lines.offset(fix.span.start)
        assert TEMPLATE[:at] + fix.text + TEMPLATE[at:] == TEMPLATE.replace(
            "__global__ void outer", "__global__ __launch_bounds__(256) void outer"
        )
    assert [one.message for one in (await advised(root)).values()] == [one.message for one in found.values()]
