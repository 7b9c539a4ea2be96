"""Asking Composable Kernel's and HIP's headers for every feature, cold and again, against a compiler that reads the
headers of CK Tile's GEMM: processor time. No process may be started. Goals: at most 50 ms cold, 2 ms again.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.choosing import alone, asked_runs
from benchmarks.reporting import Row, paired, row
from ckwatch.compile.toolchain.discover import discover
from ckwatch.headers import searched_headers
from ckwatch.headers.features import FEATURES
from ckwatch.headers.searched_headers import SearchedHeaders

MEASURED_CODE = ("daemon/ckwatch/headers",)
RUNS = 11


def measure() -> list[Row]:
    """Two rows."""
    toolchain = discover()
    folders = tuple(map(str, toolchain.feature_folders))
    started: list[str] = []
    sys.addaudithook(lambda event, _: started.append(event) if event in _PROCESSES else None)

    def ask() -> None:
        headers = SearchedHeaders(folders)
        for name in FEATURES:
            headers.feature(name)

    def ask_cold() -> None:
        searched_headers._digests.clear()
        searched_headers._texts.clear()
        ask()

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "unit.hip"
        source.write_text("#include <ck_tile/ops/gemm.hpp>\n")
        command = [str(toolchain.clangxx), "-x", "hip", "-std=c++20", "--offload-arch=gfx942", "--offload-device-only"]
        command += [*toolchain.hip_arguments, *(part for one in folders for part in ("-isystem", one))]

        def preprocess() -> None:
            subprocess.run([*command, "-E", "-o", "/dev/null", source], env=dict(toolchain.environment), check=True)

        cold, others = paired(ask_cold, preprocess, asked_runs(RUNS), _processor_s)
        mine, again = paired(ask, preprocess, asked_runs(RUNS), _processor_s)
    assert started.count("subprocess.Popen") == 2 * asked_runs(RUNS), "asking for features has started a process"
    what = f"{len(FEATURES)} features of headers"
    name = "clang -E"
    return [
        row(what, cold, others, reference_name=name, unit="ms", goal="<= 50 ms", met=lambda ms, _: ms <= 50),
        row(f"{what}, again", mine, again, reference_name=name, unit="ms", goal="<= 2 ms", met=lambda ms, _: ms <= 2),
    ]


def _processor_s() -> float:
    """Processor time of this process and of those that it has started, in seconds."""
    used = (resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


_PROCESSES = ("subprocess.Popen", "os.fork", "os.posix_spawn", "os.exec")


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
