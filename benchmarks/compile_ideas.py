"""Ideas that make a compile faster, each against the pass as ckwatch runs it; whether the object is the same.

`nice python -m benchmarks.compile_ideas [--runs N] [--only WORD]` renders the GEMM example before and after an edit of
its tile, precompiles headers as the daemon does in the background, and runs the edited instance's passes in turns, each
with one thing changed. It prints a table and puts it at the end of `results/compile_ideas.md`, unless only some were
asked for. Ratios are of processor seconds: those hold on a busy machine too.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from benchmarks.gemm_example import ARCH, BASE, EIGHT, KERNEL, TILES, Example
from benchmarks.process_tree import processor_s
from benchmarks.quick_daemon import own_trust
from benchmarks.reporting import RESULTS, machine
from ckwatch.cli import main as ckwatch
from ckwatch.compile.compile_job import source_id
from ckwatch.compile.driver_plan import CompilePlan, PassSide
from ckwatch.compile.kept_clang import PCH_FLAGS
from ckwatch.compile.precompiled_headers import INSTANTIATE_FLAG, include_prefix, warm_text
from ckwatch.compile.request import CompileRequest
from ckwatch.compile.staged_build import StagedCompiler
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.work_folder import environment_of
from ckwatch.model.errors import CkwatchError
from ckwatch.model.targets import Language
from ckwatch.system.async_processes import run_process

DEVICE, HOST = PassSide.DEVICE, PassSide.HOST
INSTANCE, SIBLING, VARIANTS = "v3_128x128_intrawave", "v3_256x128_intrawave", "v2_128x128_intrawave"
TUNABLES = "GLIBC_TUNABLES"
PAGE = RESULTS / "compile_ideas.md"
HEADING = "## In turns, by the program"


@dataclass(slots=True)
class Idea:
    """A pass with one thing changed. `against` is the idea that its seconds are divided by."""

    name: str
    command: list[str]
    against: str
    verdict: str
    variables: Mapping[str, str] = field(default_factory=dict)
    output: str = "out.o"
    processor_s: list[float] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)
    results: set[str] = field(default_factory=set)


class Bench:
    """The sources, headers and commands, in `folder`."""

    def __init__(self, folder: Path, plan: CompilePlan) -> None:
        self.folder = folder
        self.toolchain = discover()
        self.plan = plan
        self.ideas: dict[str, Idea] = {}
        (folder / "temporary").mkdir()
        self.environment = environment_of(self.toolchain.environment, folder)

    def pass_command(self, side: PassSide, source: CompileRequest, pch: Path | None = None, *more: str) -> list[str]:
        """A pass of `source`."""
        name = f"{hashlib.sha256(source.source.encode()).hexdigest()[:12]}.hip"
        (self.folder / name).write_text(source.source)
        use = () if pch is None else (*PCH_FLAGS, "-include-pch", str(pch))
        return self.plan.pass_command(
            side, source=name, output="out.o", headers="headers.txt", cuid=source_id(source), more=(*use, *more)
        )

    def header(self, side: PassSide, text: str) -> Path:
        """Precompile `text`."""
        name = f"{hashlib.sha256(text.encode()).hexdigest()[:12]}-{side}"
        command = self.plan.pass_command(
            side, source=str(self.folder / f"{name}.hip"), output=f"{name}.pch", headers="headers.txt", cuid="",
            emit="-emit-pch", more=(*PCH_FLAGS, INSTANTIATE_FLAG),
        )  # fmt: skip
        file = self.folder / f"{name}.pch"
        if not file.exists():
            (self.folder / f"{name}.hip").write_text(text)
            print(f"precompiled header: {self.run(command, {})[0]:.1f} s of the processor", flush=True)
        return file

    def run(self, command: Sequence[str], variables: Mapping[str, str]) -> tuple[float, float]:
        """Seconds of the processor and of the clock. Raises CkwatchError where it fails."""
        before_s, begun_s = processor_s(), time.monotonic()
        done = subprocess.run(
            command, cwd=self.folder, env={**self.environment, **variables}, capture_output=True, text=True, check=False
        )
        wall_s, after_s = time.monotonic() - begun_s, processor_s()
        if done.returncode:
            raise CkwatchError((done.stderr.partition("error: ")[2] or "it does not compile").partition("\n")[0])
        return after_s - before_s, wall_s

    def add(self, name: str, command: list[str], against: str, verdict: str, **more: str) -> None:
        """Something to try; `more` are variables of the environment."""
        self.ideas[name] = Idea(name, command, against, verdict, more)

    def measure(self, idea: Idea) -> None:
        """Run it once more."""
        try:
            processor_s, wall_s = self.run(idea.command, idea.variables)
        except CkwatchError as error:
            idea.results.add(str(error).replace(str(self.folder), "").replace("|", "\\|"))
            return
        idea.processor_s.append(processor_s)
        idea.wall_s.append(wall_s)
        idea.results.add(hashlib.sha256((self.folder / idea.output).read_bytes()).hexdigest())


def rendered(folder: Path) -> dict[tuple[str, int], CompileRequest]:
    """The instances, with the tile that they had and an edited one (1)."""
    example = Example(folder / "gemm", EIGHT)
    example.make()
    found = {}
    for number, changes in enumerate((BASE, {**TILES[0], "edition": 1})):
        example.kernel_file.write_text(example.kernel_text(changes))
        out = folder / f"rendered-{number}"
        if ckwatch(["render", "-C", str(example.root), "--no-daemon", "--trust", "--out", str(out)]):
            raise CkwatchError("the example does not render")
        for instance in (INSTANCE, SIBLING, VARIANTS):
            text = (out / f"{KERNEL}.{instance}@{ARCH}.hip").read_text()
            symbol = re.search(r"^int (\w+)\(const uint16_t\* X", text, re.MULTILINE)
            if symbol is None:
                raise CkwatchError("the rendered text has no exported function")
            found[instance, number] = CompileRequest(text, symbol[1], Language.HIP, ARCH)
    return found


def collect(bench: Bench, sources: Mapping[tuple[str, int], CompileRequest], only: str) -> None:
    """All that is tried; headers are made of what is needed."""
    before, edited = sources[INSTANCE, 0], sources[INSTANCE, 1]
    prefix = include_prefix(edited.source)

    def warm(source: CompileRequest) -> str:
        return warm_text(prefix, source.source, source.symbol)

    for side in (DEVICE, HOST):
        own = bench.header(side, warm(before))
        today = f"{side} pass: header with the instance as it was before the edit"
        bench.add(today, bench.pass_command(side, edited, own), today, "what ckwatch does")
        if only and only not in str(side):
            continue
        bench.add(f"{side} pass: no header", bench.pass_command(side, edited), today, "hipcc")
        texts = {
            "the includes": (prefix + prefix, "used until there is a better one"),
            "another tile of the family (256 × 128)": (warm(sources[SIBLING, 0]), "used until there is a better one"),
            "the instance in another text": (warm(edited), "taken: what is edited is instantiated in the next header"),
        }
        for name, (text, verdict) in texts.items():
            command = bench.pass_command(side, edited, bench.header(side, text))
            bench.add(f"{side} pass: header with {name}", command, today, verdict)
    today = f"{DEVICE} pass: header with the instance as it was before the edit"
    command = bench.ideas[today].command
    pch = Path(command[command.index("-include-pch") + 1])
    for name, tunables in {
        "malloc asks for huge pages (`glibc.malloc.hugetlb=1`)": "glibc.malloc.hugetlb=1",
        "huge pages for the compiler's code (`glibc.elf.thp=1`)": "glibc.elf.thp=1",
        "malloc takes 64 MB at a time (`glibc.malloc.top_pad`)": "glibc.malloc.top_pad=67108864",
    }.items():
        bench.add(name, command, today, "not taken: within the noise", **{TUNABLES: tunables})
    kept = [part.replace("-clear-ast-before-backend", "-no-clear-ast-before-backend") for part in command]
    bench.add(
        "syntax tree not freed (`-no-clear-ast-before-backend`)",
        kept,
        today,
        "not taken: within the noise, more memory",
    )
    if shutil.which("taskset"):
        bench.add(
            "bound to one core", ["taskset", "-c", "0", *command], today, "not taken: another process may be on it"
        )
    interpreted = bench.pass_command(DEVICE, edited, pch, "-fexperimental-new-constant-interpreter")
    bench.add("bytecode for constants (`-fexperimental-new-constant-interpreter`)", interpreted, today, "not possible")
    libraries = [command[at + 1] for at, part in enumerate(command) if part == "-mlink-builtin-bitcode"]
    linker = bench.toolchain.clang.parent / "llvm-link"
    if linker.exists():
        bench.run([str(linker), *libraries, "-o", "libraries.bc"], {})
        at = command.index("-mlink-builtin-bitcode")
        rest = [part for part in command[at:] if part not in {"-mlink-builtin-bitcode", *libraries}]
        merged = [*command[:at], "-mlink-builtin-bitcode", "libraries.bc", *rest]
        bench.add("the eight device libraries linked beforehand", merged, today, "not taken: not the same object")
    front = [{"-emit-obj": "-emit-llvm-bc"}.get(part, part) for part in command]
    front[-3:-3] = ["-disable-llvm-passes"]
    front[front.index("-o") + 1] = "front.bc"
    bench.add(
        "device pass in two halves: source to bitcode", front, today, "the larger half has no parts to run side by side"
    )
    bench.ideas["device pass in two halves: source to bitcode"].output = "front.bc"
    bench.add(
        "device pass in two halves: bitcode to object",
        [*bench.pass_command(DEVICE, edited)[:-3], "-x", "ir", "front.bc"],
        today,
        "not taken: one kernel becomes one function, which one thread optimizes",
    )
    sibling = sources[SIBLING, 1]
    both = CompileRequest(edited.source + sibling.source, edited.symbol, Language.HIP, ARCH)
    bench.add("two instances: the second by itself", bench.pass_command(DEVICE, sibling, pch), today, "")
    bench.add(
        "two instances in one device pass",
        bench.pass_command(DEVICE, both, pch),
        today,
        "not taken: three quarters of the sum, but one code object would hold both, and one mistake end both",
    )
    many = sources[VARIANTS, 1]
    first = re.sub(r"return launch_kernel<true, (?!One)\w+>\(argument, stream\);", "return 0;", many.source)
    alone = CompileRequest(first, many.symbol, Language.HIP, ARCH)
    includes = bench.header(DEVICE, prefix + prefix)
    whole = "kernel variants: all of a v2 instance in one device pass, includes precompiled"
    bench.add(whole, bench.pass_command(DEVICE, many, includes), whole, "what ckwatch does")
    bench.add(
        "kernel variants: one of them in a device pass of its own",
        bench.pass_command(DEVICE, alone, includes),
        whole,
        "not taken: each pass repeats most of the work, and lld does not merge the kernels' metadata notes",
    )


def table(bench: Bench, runs: int) -> str:
    """The results, in Markdown."""
    lines = ["| what | processor s | clock s | × | object | verdict |", "|---|---|---|---|---|---|"]
    for idea in bench.ideas.values():
        reference = bench.ideas[idea.against]
        if not idea.processor_s:
            lines.append(f"| {idea.name} | | | | none: {min(idea.results, default='')} | {idea.verdict} |")
            continue
        used = statistics.median(idea.processor_s)
        ratio = used / statistics.median(reference.processor_s)
        same = "the same" if idea.results == reference.results else "another"
        wall = statistics.median(idea.wall_s)
        lines.append(f"| {idea.name} | {used:.2f} | {wall:.1f} | {ratio:.2f} | {same} | {idea.verdict} |")
    about = ", ".join(f"{key} {value}" for key, value in machine().items())
    load = f"load average {os.getloadavg()[1]:.1f} at the end"
    return f"Medians of {runs} runs in turns. {about}; {load}.\n\n" + "\n".join(lines) + "\n"


async def plan_of(source: CompileRequest, folder: Path) -> CompilePlan:
    """How hipcc compiles it."""
    with ArtifactStore(folder / "store") as store:
        plan = await StagedCompiler(discover(), store, run_process).plan(source)
    if plan is None:
        raise CkwatchError("this compiler's calls are not taken apart")
    return plan


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="", help="ideas with this word, and what they are compared with")
    options = parser.parse_args()
    with own_trust(), tempfile.TemporaryDirectory(prefix="ckwatch-ideas-") as temporary:
        folder = Path(temporary).resolve()
        sources = rendered(folder)
        work = folder / "work"
        work.mkdir()
        bench = Bench(work, anyio.run(plan_of, sources[INSTANCE, 1], folder))
        collect(bench, sources, options.only)
        asked = {name: one for name, one in bench.ideas.items() if options.only in name}
        compared = {one.against for one in asked.values()}
        bench.ideas = {name: one for name, one in bench.ideas.items() if name in asked or name in compared}
        for number in range(options.runs):
            for idea in bench.ideas.values():
                bench.measure(idea)
            found = table(bench, number + 1)
            print(f"run {number + 1} of {options.runs}\n{found}", flush=True)
            if not options.only:
                earlier = PAGE.read_text().partition(HEADING)[0].rstrip()
                PAGE.write_text(f"{earlier}\n\n{HEADING}\n\n{found}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
