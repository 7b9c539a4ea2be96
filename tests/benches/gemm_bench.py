"""The example workspace `examples/gemm`, with a compiler that is a shell script."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import ckwatch
from benches.daemon_bench import COMPILER, Bench
from fakes.clangd_stand_in import ClangdStandIn
from fakes.fake_compiler import dynamic_symbols, elf

GEMM = Path(ckwatch.__file__).parents[2] / "examples/gemm"
PLACEHOLDER = "ck_gemm_universal_" + "x" * 12


def gemm_bench(folder: Path) -> Bench:
    """A copy of the example in `folder`, of two kernels; what is compiled there exports what it should."""
    bench = Bench(folder)
    settings = (bench.root / "ckwatch.toml").read_text()
    shutil.rmtree(bench.root)
    shutil.copytree(GEMM, bench.root, ignore=shutil.ignore_patterns("*bias*", "*scaled*"))
    clangd = ClangdStandIn(folder / "clangd")
    bench.write("ckwatch.toml", f"{settings}[toolchain]\nclangd = {json.dumps(str(clangd.path))}\n")
    (folder / "hipcc").write_text(COMPILER.format(folder=folder, placeholder=PLACEHOLDER))
    (folder / "so").write_bytes(elf(dynamic_symbols((PLACEHOLDER, 1, 0, 5))))
    return bench
