"""Processor time of a cold `ckwatch ci` of two units that a change affects, beside compilers.

The compiler is done at once, and the store is empty in each run: two units are built at the base and now, with all that
a run starts (git, processes that render). Nothing is emulated. Goal: at most 1.5 s. The alternative is
`ckwatch build --no-daemon` of the two units, which builds one state.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.choosing import alone, asked_runs
from benchmarks.large_workspace import git_in
from benchmarks.process_tree import processor_s
from benchmarks.quick_compiler import QuickCompiler
from benchmarks.rebuilding import environment
from benchmarks.reporting import DAEMON_CODE, Row, row

MEASURED_CODE = (*DAEMON_CODE, "daemon/ckwatch/cli", "daemon/ckwatch/compile")

RUNS = 5
LIMIT_S = 1.5

TEMPLATE = """\
constexpr int tile = {{ MPerBlock }};
extern "C" PT_EXPORT int {{ KERNEL_NAME }}(const void* a, const void* b, void* c) { return tile + NUMBER; }
"""

KERNEL = """\
template = "k.hip.j2"
[operation]
kind = "gemm"
a = { dtype = "f16", layout = "row" }
b = { dtype = "f16", layout = "col" }
c = { dtype = "f16", layout = "row" }
[[instance]]
name = "a"
MPerBlock = 128
[[instance]]
name = "b"
MPerBlock = 256
"""


def make(folder: Path) -> Path:
    """A repository with a workspace of two units, whose template has just been edited."""
    root = folder / "workspace"
    (root / "templates").mkdir(parents=True)
    (root / "ckwatch.toml").write_text(f'[store]\nfolder = "{folder}/store"\n[workspace]\narchs = ["gfx942"]\n')
    (root / "k.kernel.toml").write_text(KERNEL)
    template = root / "templates/k.hip.j2"
    template.write_text(TEMPLATE.replace("NUMBER", "1"))
    git_in(root, "init", "--quiet", "--initial-branch", "main")
    git_in(root, "add", "--all")
    git_in(root, "commit", "--quiet", "--message", "1")
    template.write_text(TEMPLATE.replace("NUMBER", "2"))
    return root


def measured_s(folder: Path, *arguments: str) -> float:
    """Processor time of a command in a process of its own and of all that it starts, with an empty store."""
    shutil.rmtree(folder / "store", ignore_errors=True)
    program = [sys.executable, "-m", "benchmarks.quick_ci", str(folder), *arguments]
    begun = processor_s()
    subprocess.run(program, env=environment(folder), check=True, stdout=subprocess.DEVNULL)
    return processor_s() - begun


def measure() -> list[Row]:
    """One row."""
    ours, reference = list[float](), list[float]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder)
        QuickCompiler(folder / "compiler").make()
        for arguments in (("ci", "--no-verify"), ("build", "--no-daemon")):  # bytecode, and the toolchain's answers
            measured_s(folder, *arguments)
        for _ in range(asked_runs(RUNS)):
            ours.append(measured_s(folder, "ci", "--no-verify"))
            reference.append(measured_s(folder, "build", "--no-daemon"))
    return [
        row(
            "processor time of a cold `ckwatch ci` of two units beside compilers",
            ours,
            reference,
            reference_name="`ckwatch build --no-daemon`, which builds one state",
            unit="s",
            goal=f"at most {LIMIT_S:g} s",
            met=lambda seconds, _: seconds <= LIMIT_S,
        )
    ]


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
