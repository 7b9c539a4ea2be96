"""The daemon's bench with a compiler whose kernels have code, and tools that print what the test wants."""

from __future__ import annotations

import json
from pathlib import Path

from benches.daemon_bench import Bench
from ckwatch.codeobject.kernel_names import is_helper
from ckwatch.codeobject.metadata import read_metadata
from ckwatch.compile.toolchain.model import Toolchain, ToolchainSource
from fakes.fake_compiler import bundle, elf
from helpers.code_objects import content

UNIT = "k/one@gfx942"
CODE = content("gemm_f16_v3_128x128x64.gfx942")
SYMBOL = next(each.symbol for each in read_metadata(CODE).kernels if not is_helper(each.symbol))
INSTRUCTIONS = (
    ("v_mov_b32_e32 v20, v21", "7E280315"),
    ("v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], v[0:15]", "D3CC0000 04022510"),
    ("s_cbranch_scc1 65532", "BF85FFFC"),
    ("s_endpgm", "BF810000"),
)
FIRST = 0x2000

# The device code alone is asked for when its lines are wanted.
LINED = """\
case "$*" in
*-###*) exit 0 ;;
*--offload-device-only*)
    for last; do :; done
    echo "$@" >> "{folder}/lined"
    if [ -e "{folder}/slow" ]; then echo $$ >> "{folder}/pids"; sleep 60; fi
    if [ -e "{folder}/killed" ]; then kill -KILL $$; fi
    if [ -e "{folder}/broken" ]; then echo "$PWD/kernel.hip:1:1: error: no lines [Semantic Issue]" >&2; exit 1; fi
    echo "{folder}/include/h.h" >> "$CC_PRINT_HEADERS_FILE"
    cp "{folder}/code" "$last"; exit ;;
esac
"""

OBJDUMP = """#!/bin/sh
case "$*" in
*lined*) if [ -e "{folder}/other" ]; then cat "{folder}/other"; exit; fi ;;
esac
cat "{folder}/disassembly"
"""


def disassembly(*texts: tuple[str, str], first: int = FIRST) -> str:
    """Return llvm-objdump's output for the kernel with these instructions."""
    lines, address = [f"{first:016x} <{SYMBOL}>:"], first
    for text, words in texts:
        lines.append(f"\t{text:<60}// {address:012X}: {words}")
        address += 4 * len(words.split())
    return "\n".join([*lines, ""])


def symbolized(*places: tuple[int, str, int, int]) -> str:
    """Return llvm-symbolizer's output: for each address, a path, a line and a column."""
    return json.dumps(
        [
            {
                "Address": f"{address:#x}",
                "ModuleName": "lined.hsaco",
                "Symbol": [{"Column": column, "FileName": path, "FunctionName": "f", "Line": line}],
            }
            for address, path, line, column in places
        ],
        separators=(",", ":"),
    )


class IsaBench(Bench):
    """`lined` are the compiles for lines so far."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        script = folder / "hipcc"
        first, _, rest = script.read_text().partition("\n")
        script.write_text(f"{first}\n{LINED.format(folder=folder)}{rest}")
        sections = {".hip_fatbin": bundle(("host-x86_64-", b""), ("hipv4-amdgcn-amd-amdhsa--gfx942", CODE))}
        (folder / "object").write_bytes(elf(sections))
        (folder / "code").write_bytes(CODE)
        tools = folder / "tools"
        tools.mkdir()
        for name, text in (
            ("llvm-objdump", OBJDUMP.format(folder=folder)),
            ("llvm-symbolizer", f'#!/bin/sh\ncat "{folder}/lines"\n'),
        ):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        self.print_code(*INSTRUCTIONS)
        self.print_lines((FIRST + 4, "./kernel.hip", 3, 5), (FIRST + 16, str(self.header), 1, 1))
        fake = self.toolchain
        self.toolchain = Toolchain(  # type: ignore[assignment]  # a real one, of scripts
            source=ToolchainSource.INSTALLED, root=folder, hipcc=script, clang=script, clangxx=script,
            lld=script, readelf=script, objdump=tools / "llvm-objdump", mca=None,
            device_libraries=folder, hip_include=folder, hip_library=None, ck=None, ck_tile=None,
            hip_arguments=fake.hip_arguments, cpp_arguments=(), link_arguments=fake.link_arguments, openmp=False,
            hip_version="0", clang_version="0 (fake)", rocm_version=None, identity="compiler 1",
            environment=fake.environment,
        )  # fmt: skip

    def print_code(self, *texts: tuple[str, str]) -> None:
        """Let the artifact's kernel have these instructions."""
        (self.folder / "disassembly").write_text(disassembly(*texts))

    def print_lines(self, *places: tuple[int, str, int, int]) -> None:
        """Let the symbolizer say this."""
        (self.folder / "lines").write_text(symbolized(*places))

    @property
    def lined(self) -> list[str]:
        """The arguments of each compile for lines."""
        path = self.folder / "lined"
        return path.read_text().splitlines() if path.exists() else []
