"""The probe kernels: PTX as the driver gets it, and HIP's on the emulator, which executes what hipcc made of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from ckwatch.bench.probes.cuda import FLUSH_INSTRUCTIONS, flush_ptx, ptx
from ckwatch.bench.probes.hip import FLUSH_BYTES, HIP_SOURCE, MORE_SYMBOLS, SYMBOL
from ckwatch.compile.builder import Builder
from ckwatch.compile.request import CompileRequest
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.toolchain.discover import discover
from ckwatch.model.targets import Language
from fakes.hip_stand_in import build_hip, environment
from fakes.patience import PATIENCE_S

ON_THE_EMULATOR = """
import json, sys
import numpy as np
from ckwatch.verification.device import EmulatedDevice
device = EmulatedDevice(sys.argv[1], sys.argv[2], "gfx942")
from ckwatch.bench.probes.hip import HipProbes
device.configure(checked=False, traced=False, workgroups=None, seed=1)
probes = HipProbes(open(sys.argv[3], "rb").read(), 0, 2)
address = device.allocate(4096)
device.upload(address, np.arange(4096, dtype=np.uint32).view(np.uint8)[:4096])
for launch in (lambda: probes.read(address, 4096, 2), lambda: probes.spin(1000), probes.flush_instructions):
    launch()
    device.synchronize()
assert device.problem() == "" and device.findings() == [], (device.problem(), device.findings())
probes.fault()
device.synchronize()
print(json.dumps([found["kind"] for found in device.findings()]))
"""


def test_the_ptx_names_every_kernel_that_is_launched() -> None:
    assert set(re.findall(r"\.visible \.entry (\w+)\(", ptx() + flush_ptx())) == {
        *("ckwatch_read", "ckwatch_spin", "ckwatch_fault", "ckwatch_cycles", "ckwatch_flush_instructions"),
    }
    assert flush_ptx().count("fma.rn.f32") == FLUSH_INSTRUCTIONS
    assert all(text.isascii() for text in (ptx(), flush_ptx()))


@pytest.mark.toolchain
async def test_the_hip_probes_run_on_the_emulator(tmp_path: Path) -> None:
    toolchain = discover()
    request = CompileRequest(
        source=HIP_SOURCE, symbol=SYMBOL, more_exports=MORE_SYMBOLS, language=Language.HIP, arch="gfx942"
    )
    with ArtifactStore(tmp_path / "store") as store:
        result = await Builder(toolchain, store).build(request)
        assert result.artifact is not None, result.log
        assert result.artifact.shared_object is not None
        shared = tmp_path / "probes.so"
        shared.write_bytes(result.artifact.shared_object.read_bytes())
    assert len(shared.read_bytes()) > FLUSH_BYTES
    rocm = await anyio.to_thread.run_sync(build_hip, tmp_path / "rocm")
    objdump = str(toolchain.clangxx.parent / "llvm-objdump")

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", ON_THE_EMULATOR, str(rocm / "lib/libamdhip64.so"), objdump, str(shared)],
            env=environment(rocm),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    done = await anyio.to_thread.run_sync(run)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == '["out-of-bounds-write"]'
