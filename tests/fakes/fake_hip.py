"""hipcc taken apart, without processes: each program writes what the next one needs and says what a test wants."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel

from ckwatch.compile.driver_plan import CompilePlan, PassSide, read_plan
from ckwatch.compile.request import CompileRequest
from ckwatch.model.targets import Language
from ckwatch.system.async_processes import ExitReason, ProcessResult
from fakes.fake_compiler import DEVICE_CODE, OBJECT, FakeToolchain, dynamic_symbols, elf, object_symbols

PRINTED = (Path(__file__).parent.parent / "data/hipcc/commands.txt").read_text()
PLAN: CompilePlan = read_plan(PRINTED)
SYMBOL = "k_0123456789ab"
SOURCE = f"#include <a.h>\nint {SYMBOL}() {{ return 1; }}\n"
WARM = f"#include <a.h>\n// CKWATCH_WARM_UP: v3\nint {SYMBOL}() {{ return 1; }}\n"
SHARED_OBJECT = elf(dynamic_symbols((SYMBOL, 1, 0, 5), ("std", 2, 0, 5), ("hidden", 1, 2, 5), ("undefined", 1, 0, 0)))
FAT_BINARY = "__hip_fatbin_821d557832973ff6"
HOST_OBJECT = elf(object_symbols((FAT_BINARY, 1, 0, 0), (SYMBOL, 1, 0, 5), ("hipLaunchKernel", 1, 0, 0)))
PLAIN_OBJECT = elf(object_symbols((SYMBOL, 1, 0, 5)))


class Step(StrEnum):
    """A program of a compile."""

    ASK = "hipcc -###"
    WHOLE = "hipcc"
    HOST = "host pass"
    DEVICE = "device pass"
    HOST_HEADER = "host header"
    DEVICE_HEADER = "device header"
    DEVICE_LINK = "device link"
    BUNDLE = "bundle"
    EMBED = "embed"
    LINK = "link"


PASS_OF = {PassSide.HOST: Step.HOST, PassSide.DEVICE: Step.DEVICE}
HEADER_OF = {PassSide.HOST: Step.HOST_HEADER, PassSide.DEVICE: Step.DEVICE_HEADER}


@dataclass
class Run:
    """A program that was started."""

    step: Step
    arguments: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]

    def after(self, name: str) -> str | None:
        """The value of an option."""
        return self.arguments[self.arguments.index(name) + 1] if name in self.arguments else None

    @property
    def precompiled(self) -> str | None:
        """The precompiled header that it was given."""
        return self.after("-include-pch")

    @property
    def text(self) -> str:
        """Return the inputs of a pass or a precompiled header."""
        return (self.folder / self.arguments[-1]).read_text()

    @property
    def output(self) -> Path:
        """The file that it writes."""
        named = next((part.partition("=")[2] for part in self.arguments if part.startswith("-output=")), None)
        return self.folder / (named or self.after("-o") or "")


During = Callable[[Run], Awaitable[None]]


@dataclass
class Answer:
    """How a program ends. `opens` are the headers that it reads when it is given none that was precompiled."""

    said: str = ""
    status: int = 0
    exit_reason: ExitReason = ExitReason.EXITED
    content: bytes | None = None
    opens: tuple[str, ...] = ()
    during: During | None = None


@dataclass
class FakeHip:
    """A launcher. `answers` say how each program ends, `runs` which were started, `running` which still run."""

    toolchain: FakeToolchain
    answers: dict[Step, Answer] = field(default_factory=dict)
    refuse: str = ""
    """Message of a pass on every precompiled header."""
    runs: list[Run] = field(default_factory=list)
    running: list[Step] = field(default_factory=list)
    together: int = 0
    """The most programs that have run at a time."""

    @property
    def steps(self) -> list[Step]:
        return [run.step for run in self.runs]

    def runs_of(self, step: Step) -> list[Run]:
        return [run for run in self.runs if run.step is step]

    def answer(self, step: Step, said: str = "", status: int = 0, **more: Any) -> None:
        """From now on the program ends so."""
        known = self.answers.get(step, Answer())
        self.answers[step] = Answer(said, status, **{"opens": known.opens, **more})

    async def __call__(
        self,
        arguments: list[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        on_line: Callable[[str], None] | None = None,
        **_limits: object,
    ) -> ProcessResult:
        run = Run(step_of(arguments), tuple(arguments), folder, environment)
        self.runs.append(run)
        self.running.append(run.step)
        self.together = max(self.together, len(self.running))
        try:
            await anyio.lowlevel.checkpoint()
            answer = self.answers.get(run.step, Answer())
            if answer.during is not None:
                await answer.during(run)
                answer = self.answers[run.step]
            if self.refuse and run.precompiled is not None:
                answer = Answer(self.refuse.format(header=run.precompiled), 1)
            self._write(run, answer)
            for line in answer.said.splitlines():
                if on_line is not None:
                    on_line(line)
            return ProcessResult(tuple(arguments), answer.exit_reason, answer.status, "", answer.said, 0, 0.5, 1 << 20)
        finally:
            self.running.remove(run.step)

    def _write(self, run: Run, answer: Answer) -> None:
        listed = run.after("-header-include-file") or run.environment["CC_PRINT_HEADERS_FILE"]
        if run.step in (*PASS_OF.values(), *HEADER_OF.values(), Step.WHOLE):
            opened = answer.opens if run.precompiled is None else ()
            with Path(listed).open("a") as file:
                file.writelines(f"{name}\n" for name in opened)
        if answer.status == 0 and run.step is not Step.ASK:
            run.output.write_bytes(_CONTENTS.get(run.step, b"") if answer.content is None else answer.content)


_CONTENTS = {
    Step.WHOLE: OBJECT,
    Step.HOST: HOST_OBJECT,
    Step.DEVICE_LINK: DEVICE_CODE,
    Step.EMBED: OBJECT,
    Step.LINK: SHARED_OBJECT,
}


def step_of(arguments: list[str]) -> Step:
    """Which program this is."""
    if "-cc1" in arguments:
        side = PassSide.DEVICE if arguments[arguments.index("-triple") + 1] == "amdgcn-amd-amdhsa" else PassSide.HOST
        return (HEADER_OF if "-emit-pch" in arguments else PASS_OF)[side]
    if "-flavor" in arguments:
        return Step.DEVICE_LINK
    if arguments[0].endswith("clang-offload-bundler"):
        return Step.BUNDLE
    if "-###" in arguments:
        return Step.ASK
    if "-shared" in arguments:
        return Step.LINK
    return Step.EMBED if "-r" in arguments else Step.WHOLE


def fake_hip(folder: Path) -> FakeHip:
    """A toolchain with the header `a.h`, which both passes read, and one more for each: `host.h` and `device.h`."""
    include = folder / "include"
    include.mkdir(parents=True)
    names = {name: str(include / f"{name}.h") for name in ("a", "host", "device")}
    for name, path in names.items():
        Path(path).write_text(f"// {name}\n")
    program = Path("/rocm/bin/hipcc")
    toolchain = FakeToolchain(
        program,
        Path("/rocm/bin/clang++"),
        roots={"fake": include},
        include_folders=(include,),
    )
    hip = FakeHip(toolchain)
    hip.answer(Step.ASK, PRINTED)
    for side in PassSide:
        for step in (PASS_OF[side], HEADER_OF[side]):
            hip.answer(step, opens=(names["a"], names[side.value]))
    hip.answer(Step.WHOLE, opens=tuple(names.values()))
    return hip


def request(source: str = SOURCE, **more: Any) -> CompileRequest:
    """A HIP source whose function is SYMBOL."""
    return CompileRequest(
        source, **{"symbol": SYMBOL, "language": Language.HIP, "arch": "gfx942", "kernel": "k"} | more
    )
