"""Writes gfx90a.txt, gfx942.txt, gfx950.txt, gfx1100.txt, gfx1201.txt and gfx1250.txt: instructions as the toolchain's assembler encodes them and its
disassembler prints them, `text // words`. The tests need no toolchain then.

    python tests/data/instructions/record.py FOLDER_OF_LLVM_MC
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))

from references.instruction_lists import MATRIX, OTHER  # noqa: E402
from references.memory_references import memory_lines  # noqa: E402
from references.rdna_references import GFX1250_LINES, gfx12_lines, rdna_lines  # noqa: E402
from references.scalar_references import scalar_lines  # noqa: E402
from references.vector_references import VECTOR, Reference  # noqa: E402

REGISTERS = {"f64": 2, "u64": 2, "i64": 2, "f32x2": 2, "u128": 4}
FLOATS = ("f16", "f32", "f64", "s32", "h16")
SDWA = [
    "dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_2 {}",
    "dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:WORD_1 {}",
    "dst_sel:WORD_0 dst_unused:UNUSED_SEXT src0_sel:DWORD {}",
    "dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 {}",
    "dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_0 {}",
    "dst_sel:BYTE_3 dst_unused:UNUSED_PAD src0_sel:WORD_0 {}",
]
SECOND = ["src1_sel:WORD_1", "src1_sel:BYTE_3", "src1_sel:DWORD", "src1_sel:WORD_0", "src1_sel:BYTE_1"]
DPP = [
    "quad_perm:[3,1,0,2] row_mask:0xf bank_mask:0xf",
    "row_shl:1 row_mask:0xa bank_mask:0x5",
    "row_shr:3 row_mask:0xf bank_mask:0xf bound_ctrl:0",
    "row_ror:5 row_mask:0xf bank_mask:0xd",
    "wave_shl:1 row_mask:0xf bank_mask:0xf",
    "wave_rol:1 row_mask:0x7 bank_mask:0xf",
    "wave_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:0",
    "wave_ror:1 row_mask:0xf bank_mask:0xf",
    "row_mirror row_mask:0xf bank_mask:0xe",
    "row_half_mirror row_mask:0xf bank_mask:0xf",
    "row_bcast:15 row_mask:0xa bank_mask:0xf",
    "row_bcast:31 row_mask:0xc bank_mask:0xf bound_ctrl:0",
    "row_newbcast:3 row_mask:0xf bank_mask:0xf",
]
CONSTANTS = ["1.0", "-4.0", "0.15915494", "7", "-13", "64"]


def register(base: int, kind: str, letter: str = "v") -> str:
    count = REGISTERS.get(kind, 1)
    return f"{letter}{base}" if count == 1 else f"{letter}[{base}:{base + count - 1}]"


def forms(number: int, reference: Reference) -> Iterator[str]:
    """Ways to write an instruction; those that do not exist are left out by the assembler."""
    name, kinds = reference.name, reference.sources
    results = [("s[10:11]" if kind == "m" else register(10, kind)) for kind in reference.results]
    sources = [("s[12:13]" if kind == "m" else register(20 + 10 * n, kind)) for n, kind in enumerate(kinds)]
    if name.startswith("v_accvgpr"):
        if "write" in name or "mov" in name:
            results = ["a10"]
        if "read" in name or "mov" in name:
            sources = ["a20"]
    if name.endswith(("mk_f32", "ak_f32")):
        sources[1 if "mk" in name else 2] = "0x40490fdb"
    vcc_results = ["vcc" if kind == "m" else result for kind, result in zip(reference.results, results, strict=True)]
    vcc_sources = ["vcc" if kind == "m" else source for kind, source in zip(kinds, sources, strict=True)]

    def line(suffix: str, written: list[str], read: list[str], modifiers: str = "") -> str:
        return f"{name}{suffix} {', '.join([*written, *read])} {modifiers}".strip()

    yield line("", vcc_results, vcc_sources)
    yield line("_e64", results, sources)
    changes = [lambda s: f"-{s}", lambda s: f"|{s}|", lambda s: f"-|{s}|"]
    if "x2" not in "".join(kinds) and any(kind in FLOATS for kind in kinds):
        changed = [
            changes[(number + n) % 3](s) if k in FLOATS else s
            for n, (s, k) in enumerate(zip(sources, kinds, strict=True))
        ]
        yield line("_e64", results, changed)
        yield line("", results, changed)
    if reference.results[0] in ("f32", "f16", "f64"):
        yield line("_e64", results, sources, "clamp")
        yield line("", results, sources, "clamp")
        if reference.results[0] == "f32":
            omod = ["mul:2", "mul:4", "div:2"][number % 3]
            yield line("_e64", results, sources, omod)
            yield line("", results, sources, omod)
    elif reference.clamps and "m" not in kinds and reference.results[0] != "m":
        yield line("_e64", results, sources, "clamp")
        yield line("", results, sources, "clamp")
    if not name.startswith(("v_accvgpr", "v_div_scale")) and not name.endswith(("mk_f32", "ak_f32")):
        for at, kind in enumerate(kinds):
            if kind in ("m", "u128"):
                continue
            scalar = [register(20, kind, "s") if n == at else s for n, s in enumerate(sources)]
            yield line("", vcc_results, [register(20, kind, "s") if n == at else s for n, s in enumerate(vcc_sources)])
            yield line("_e64", results, scalar)
            if at == (number % len(kinds)) and "bf16" not in kind and kind != "f32x2":
                constant = CONSTANTS[number % 6] if kind.startswith("f") else CONSTANTS[3 + number % 3]
                yield line("_e64", results, [constant if n == at else s for n, s in enumerate(sources)])
                yield line("", results, [constant if n == at else s for n, s in enumerate(sources)])
        if kinds and kinds[0] != "m":
            yield line("", vcc_results, ["0x40490fdb", *vcc_sources[1:]])
    sixteen = [k in ("f16", "u16", "i16", "h16") for k in kinds]
    if any(sixteen) or reference.results[0] in ("f16", "u16", "i16"):
        for pattern in range(3):
            bits = [str(int(half and (pattern == 2 or n % 2 == pattern))) for n, half in enumerate(sixteen)]
            last = str(int(pattern > 0 and reference.results[0] in ("f16", "u16", "i16")))
            yield line("", results, sources, f"op_sel:[{','.join([*bits, last])}]")
    if any(k.endswith("x2") for k in kinds) and name.startswith(("v_pk", "v_dot2_")):
        count = len(kinds) if name.startswith("v_pk") else 2
        for pattern in (1, 2, 3):
            low = ",".join([*(str(pattern >> n % 2 & 1) for n in range(count)), *["0"] * (len(kinds) - count)])
            high = ",".join([*(str(pattern >> (n + 1) % 2 & 1) for n in range(count)), *["0"] * (len(kinds) - count)])
            yield line("", results, sources, f"op_sel:[{low}] op_sel_hi:[{high}]")
            if "f" in kinds[0]:
                yield line("", results, sources, f"neg_lo:[{low}] neg_hi:[{high}]")
    for step in range(2):
        one = SDWA[3 if reference.ulps else (number + 2 * step) % len(SDWA)]
        second = SECOND[(number + step) % len(SECOND)] if len([k for k in kinds if k != "m"]) > 1 else ""
        changed = list(vcc_sources)
        if step and kinds and kinds[0] in ("i32", "i16", "u32", "u16"):
            changed[0] = f"sext({changed[0]})"
        elif step and kinds and kinds[0] in ("f32", "f16"):
            changed[0] = changes[number % 3](changed[0])
        modifiers = one.format(second)
        if reference.results[0] == "m":
            modifiers = modifiers[modifiers.index("src0_sel") :]
        yield line("_sdwa", vcc_results, changed, modifiers)
    for step in range(2):
        yield line("_dpp", vcc_results, vcc_sources, DPP[(number + 7 * step) % len(DPP)])


def assembled(folder: Path, target: str, lines: list[str]) -> list[str]:
    """Return the disassembly of those lines that the assembler takes."""
    with tempfile.TemporaryDirectory() as scratch:
        source, made = Path(scratch, "x.s"), Path(scratch, "x.o")
        command = [
            str(folder / "llvm-mc"),
            "-arch=amdgcn",
            f"-mcpu={target}",
            "-filetype=obj",
            str(source),
            "-o",
            str(made),
        ]
        source.write_text("\n".join(lines) + "\n")
        said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
        wrong = {int(found) for found in re.findall(r"x\.s:(\d+):\d+: error", said)}
        source.write_text("\n".join(line for n, line in enumerate(lines, 1) if n not in wrong) + "\n")
        subprocess.run(command, check=True)
        printed = subprocess.run(
            [str(folder / "llvm-objdump"), "--disassemble", f"--mcpu={target}", str(made)],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
    found = re.findall(r"^\t(.*?)\s*// [0-9A-F]+: ([0-9A-F ]+)", printed, re.MULTILINE)
    return [f"{text} // {words}".rstrip() for text, words in found]


def main() -> None:
    folder = Path(sys.argv[1])
    wanted = [line for n, reference in enumerate(VECTOR.values()) for line in forms(n, reference)]
    wanted += [*OTHER, *scalar_lines(), *memory_lines()]
    known: set[str] = set()
    for target in ("gfx942", "gfx950", "gfx90a"):
        lines = list(dict.fromkeys(assembled(folder, target, wanted + MATRIX)))
        names = {line.split()[0] for line in lines}
        # What another target has, too, is tested there; only small floats, matrices, loads to LDS and atomics differ.
        kept = [
            line for line in lines
            if (base := re.sub(r"_(e32|e64|dpp|sdwa)$", "", line.split()[0])) not in known or "fp8" in base
            or "bf8" in base or "mfma" in base or "smfmac" in base or re.search(r" lds //|atomic_add v.* glc //", line)
        ]  # fmt: skip
        known |= {re.sub(r"_(e32|e64|dpp|sdwa)$", "", name) for name in names}
        (HERE / f"{target}.txt").write_text("\n".join(kept) + "\n")
    rdna = {"gfx1100": list(rdna_lines()), "gfx1201": list(gfx12_lines()), "gfx1250": list(GFX1250_LINES)}
    for target, wanted in rdna.items():
        (HERE / f"{target}.txt").write_text("\n".join(assembled(folder, target, wanted)) + "\n")


if __name__ == "__main__":
    main()
