"""A workspace whose kernels run on this machine: C compiled by the host's own compiler, timed by real workers.

What a kernel does wrong is in its parameters. The times are real, and mean nothing.
"""

from __future__ import annotations

from pathlib import Path

import anyio

from benches.daemon_bench import Bench
from ckwatch.engine.answers import Daemon
from ckwatch.wire.benchmarks import BenchLine
from fakes.patience import PATIENCE_S
from helpers.workspaces import gemm_kernel

SETTINGS = """
[bench]
caches = ["hot"]
budget_s = 60
relative_error = 0.9
lease_wait_s = 60
"""

KERNEL = gemm_kernel(
    "k.cpp.j2",
    {"one": {"Factor": 1}},
    dtype="f32",
    layouts=("row", "row", "row"),
    shapes={"small": {"M": 8, "N": 16, "K": 4}, "odd": {"M": 7, "N": 5, "K": 3}},
)

TEMPLATE = """\
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#define EXPORT __attribute__((visibility("default")))
extern "C" EXPORT int {{ KERNEL_NAME }}(
        const float* X, const float* W, float* Y, int32_t M, int32_t N, int32_t K, int32_t LDA, int32_t LDB, int32_t LDC, int32_t LDD, int32_t kBatch, size_t* workspace_size, uint8_t* workspace, void* stream) {
    (void)LDD; (void)kBatch; (void)workspace; (void)stream;
    if (workspace_size != NULL) { *workspace_size = 0; return 0; }
    const int fault = {{ Fault | default(0) }};
    if (fault == 1) { fprintf(stderr, "the kernel's last words\\n"); abort(); }
    if (fault == 2) { fprintf(stderr, "no such tile\\n"); return -23; }
    for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) {
            float sum = 0;
            for (int k = 0; k < K; ++k) sum += X[m * LDA + k] * W[k * LDB + n];
            Y[m * LDC + n] = sum * {{ Factor }};
        }
    return 0;
}
"""

COMPILER = """#!/bin/sh
for last; do :; done
case "$*" in
*-march=native*-###*) echo ' "-target-cpu" "any" ' >&2 ;;
*-shared*) exec cc -shared -o "$last" kernel.o ;;
*) echo "x" >> "{folder}/runs"; exec cc -O1 -fPIC -x c++ -c kernel.cpp -o "$last" ;;
esac
"""


class Timed(Bench):
    """`open` starts a daemon on it."""

    def __init__(self, folder: Path, settings: str = SETTINGS) -> None:
        super().__init__(folder)
        for name in ("k.kernel.toml", "templates/k.hip.j2", "templates/macros.j2"):
            (self.root / name).unlink()
        self.write("ckwatch.toml", (self.root / "ckwatch.toml").read_text() + settings)
        self.write("k.kernel.toml", KERNEL)
        self.write("templates/k.cpp.j2", TEMPLATE)
        script = self.folder / "hipcc"
        script.write_text(COMPILER.format(folder=self.folder))


async def lines_of(
    daemon: Daemon, *patterns: str, shapes: list[str] | None = None, force: bool = False
) -> list[BenchLine]:
    """The lines of a benchmark, stages left out."""
    found: list[BenchLine] = []
    with anyio.fail_after(PATIENCE_S):
        async with daemon.benchmarks.bench(patterns or None, shapes, device=None, force=force) as lines:
            found = [line async for line in lines if line.event not in ("start", "stage", "began")]
    return found
