"""A workspace whose compiler leaves real code objects: one that clang made, with figures that a test has put into it."""

from __future__ import annotations

from pathlib import Path

from benches.daemon_bench import Bench
from ckwatch.compile.toolchain.model import Toolchain, ToolchainSource
from fakes.fake_compiler import bundle, elf
from helpers.code_objects import content

CODE = content("gemm_f16_v3_128x128x64.gfx942")
"""Its main kernel has 194 VGPR, 32768 B of LDS, no spills, 2 waves per SIMD."""

WIDTHS = {0xCC: 1, 0xCD: 2}
"""Bytes of a MessagePack number after these; smaller numbers are a byte of their own."""

OBJDUMP = """#!/bin/sh
echo "$2" >> "{folder}/looks"
if [ -e "{folder}/hanging" ]; then echo $$ >> "{folder}/pids"; sleep 60; fi
if [ -e "{folder}/killed" ]; then kill -KILL $$; fi
"""


def with_figures(**fields: int) -> bytes:
    """The code object with other figures of its last kernel, as wide as they were: `vgpr_count=255`."""
    code = CODE
    for name, value in fields.items():
        key = f".{name}".encode()
        at = code.rindex(bytes([0xA0 | len(key)]) + key if len(key) < 32 else bytes([0xD9, len(key)]) + key)
        at = code.index(key, at) + len(key)
        width = WIDTHS.get(code[at], 0)
        at += bool(width)
        width = width or 1
        code = code[:at] + value.to_bytes(width, "big") + code[at + width :]
    return code


class CodeBench(Bench):
    """`looks` counts what was disassembled. `will("hanging")` and `will("killed")` say how that ends."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        script = folder / "hipcc"
        chosen = f'cp "{folder}/object-$tile" "$last" 2>/dev/null || cp "{folder}/object" "$last"'
        script.write_text(script.read_text().replace(f'cp "{folder}/object" "$last"', chosen))
        objdump = folder / "llvm-objdump"
        objdump.write_text(OBJDUMP.format(folder=folder))
        objdump.chmod(0o755)
        self.compiles_to(CODE)
        fake = self.toolchain
        self.toolchain = Toolchain(  # type: ignore[assignment]  # a real one, of scripts
            source=ToolchainSource.INSTALLED, root=folder, hipcc=script, clang=script, clangxx=script,
            lld=script, readelf=script, objdump=objdump, mca=None, device_libraries=folder,
            hip_include=folder, hip_library=None, ck=None, ck_tile=None, hip_arguments=fake.hip_arguments,
            cpp_arguments=(), link_arguments=fake.link_arguments, openmp=False, hip_version="0",
            clang_version="0 (fake)", rocm_version=None, identity="compiler 1", environment=fake.environment,
        )  # fmt: skip

    def compiles_to(self, code: bytes, tile: int | None = None) -> None:
        """Set the result of a tile's compile, or of every other one."""
        name = "object" if tile is None else f"object-{tile}"
        sections = {".hip_fatbin": bundle(("host-x86_64-", b""), ("hipv4-amdgcn-amd-amdhsa--gfx942", code))}
        (self.folder / name).write_bytes(elf(sections))

    @property
    def looks(self) -> int:
        """How often LLVM's tools have looked into a code object."""
        path = self.folder / "looks"
        return len(path.read_text().split()) if path.exists() else 0
