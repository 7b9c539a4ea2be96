"""Commands to compile a rendered source without ckwatch, with the flags that ckwatch uses: no ladder, no store.

`shared_object` is the two commands that ckwatch would make of one source, `check` is the same with `-fsyntax-only`.
`inductor` is what PyTorch Inductor's ROCm backend runs (`torch/_inductor/codegen/rocm/compile_command.py`, defaults of
`torch._inductor.config.rocm`): clang itself, compile and link in one, `-O2`, and the include folders as plain `-I`.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gemm_example import ARCH
from ckwatch.compile.flags import compile_flags, include_flags, link_flags
from ckwatch.compile.request import CompileRequest
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.model.errors import CkwatchError
from ckwatch.model.targets import Language
from ckwatch.system.async_processes import ExitReason, run_process

LIMIT_S = 1200.0

_ERROR = re.compile(r"\berror: ")
_INDUCTOR_OPTIONS = (
    "-O2", "-x", "hip", "-std=c++20", f"--offload-arch={ARCH}", "-fno-gpu-rdc", "-fPIC", "-fvisibility=hidden",
    "-mllvm", "-enable-post-misched=0", "-fgpu-flush-denormals-to-zero", "-ffast-math",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Run:
    """One or two commands, one after the other. `first_error_s`: until the first line that says so."""

    seconds: float
    ok: bool
    first_error_s: float | None
    text: str


class Hipcc:
    """The commands, run in `folder`."""

    def __init__(self, toolchain: Toolchain, folder: Path) -> None:
        self.toolchain = toolchain
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.environment = {
            **toolchain.environment,
            "TMPDIR": str(folder),
            "LC_ALL": "C.UTF-8",
            "SOURCE_DATE_EPOCH": "0",
        }

    def write(self, source: str, symbol: str, name: str = "kernel") -> CompileRequest:
        """Write `NAME.hip` and the list of its exports."""
        (self.folder / f"{name}.hip").write_text(source)
        (self.folder / f"{name}.map").write_text(f"{{ global: {symbol}; local: *; }};\n")
        return CompileRequest(source, symbol, Language.HIP, ARCH)

    def compile_command(self, request: CompileRequest, name: str = "kernel") -> list[str]:
        """Source to object."""
        return [*self._flags(request), "-MD", "-MF", f"{name}.d", "-c", f"{name}.hip", "-o", f"{name}.o"]

    def link_command(self, request: CompileRequest, name: str = "kernel") -> list[str]:
        """Object to shared object."""
        arguments = [str(self.toolchain.hipcc), *self.toolchain.hip_arguments, f"--offload-arch={ARCH}"]
        arguments += ["-shared", "-Wl,-z,defs", f"-Wl,--version-script={name}.map", f"{name}.o"]
        return [*arguments, *self.toolchain.link_arguments, *link_flags(request), "-o", f"{name}.so"]

    async def check(self, source: str, *options: str) -> Run:
        """All passes without code; `options` may choose one (`--offload-host-only`)."""
        request = self.write(source, "kernel")
        return await self._run([*self._flags(request), *options, "-fsyntax-only", "kernel.hip"])

    async def shared_object(self, source: str, symbol: str) -> Run:
        """The whole compile, which ends where there are errors."""
        request = self.write(source, symbol)
        return await self._run(self.compile_command(request), self.link_command(request))

    async def device_object(self, source: str, symbol: str, *options: str) -> Run:
        """The device's pass alone."""
        request = self.write(source, symbol)
        one_pass = ("--offload-device-only", "--no-gpu-bundle-output", "-Wno-unused-command-line-argument")
        return await self._run([*self.compile_command(request), *one_pass, *options])

    async def inductor(self, source: str) -> Run:
        """As Inductor compiles it; what this toolchain needs anywhere comes before its options."""
        toolchain = self.toolchain
        self.write(source, "kernel")
        folders = [*toolchain.include_folders, toolchain.hip_include]
        command = [str(toolchain.clang), *toolchain.hip_arguments, *_INDUCTOR_OPTIONS]
        command += [f"-I{folder}" for folder in dict.fromkeys(folders)]
        command += ["-include", "__clang_hip_runtime_wrapper.h", *toolchain.link_arguments, "-lamdhip64"]
        return await self._run([*command, "-shared", "-o", "inductor.so", "kernel.hip"])

    async def _run(self, *commands: Sequence[str]) -> Run:
        begun_s = time.monotonic()
        errors: list[float] = []

        def heard(line: str) -> None:
            if _ERROR.search(line):
                errors.append(time.monotonic() - begun_s)

        ok, text = True, ""
        for command in commands:
            done = await run_process(
                command, environment=self.environment, folder=self.folder, timeout_s=LIMIT_S, on_line=heard
            )
            text += done.stderr
            ok = done.exit_status == 0
            if done.exit_reason is not ExitReason.EXITED:
                raise CkwatchError(f"{Path(command[0]).name} {done.exit_reason}", text[-500:] or None)
            if not ok:
                break
        return Run(time.monotonic() - begun_s, ok, errors[0] if errors else None, text)

    def _flags(self, request: CompileRequest) -> list[str]:
        identity = hashlib.sha256(request.source.encode()).hexdigest()[:16]
        command = [str(self.toolchain.hipcc), *self.toolchain.hip_arguments, f"-cuid={identity}"]
        return [*command, *compile_flags(request, self.toolchain), *include_flags(request, self.toolchain)]
