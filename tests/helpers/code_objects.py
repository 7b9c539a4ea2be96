"""Real code objects, and what the compiler itself remarked on their kernels."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgpack

DATA = Path(__file__).parent.parent / "data/code_objects"
OBJECTS = sorted(path.name.removesuffix(".hsaco") for path in DATA.glob("*.hsaco"))

_REMARK = re.compile(r"remark:\s+(?P<what>.*?): (?P<value>\S+) \[-R")


def content(name: str) -> bytes:
    return (DATA / f"{name}.hsaco").read_bytes()


def remarks(name: str) -> dict[str, dict[str, str]]:
    """By the kernel's symbol: what is remarked on, and the figure as it is printed."""
    found: dict[str, dict[str, str]] = {}
    kernel: dict[str, str] = {}
    for remark in _REMARK.finditer((DATA / f"{name}.txt").read_text()):
        if remark["what"] == "Function Name":
            kernel = found.setdefault(remark["value"], {})
        else:
            kernel[remark["what"]] = remark["value"]
    return found


def kernel_metadata(symbol: str, **fields: object) -> dict[str, object]:
    """What the metadata of a small kernel says; `fields` without the dot."""
    usual = {
        "vgpr_count": 8, "sgpr_count": 16, "group_segment_fixed_size": 0, "private_segment_fixed_size": 0,
        "kernarg_segment_size": 8, "max_flat_workgroup_size": 256, "wavefront_size": 64,
    }  # fmt: skip
    return {f".{name}": value for name, value in ({"name": symbol, "symbol": f"{symbol}.kd"} | usual | fields).items()}


def made_code_object(*objects: Sequence[Mapping[str, Any]] | bytes, arch: str = "gfx942") -> bytes:
    """A code object without code, linked of objects with these kernels, each with a note of its own; bytes are the
    content of a note."""
    target = f"amdgcn-amd-amdhsa--{arch}"
    notes = bytearray()
    for one in objects:
        told = {"amdhsa.kernels": one, "amdhsa.target": target, "amdhsa.version": [1, 2]}
        content = one if isinstance(one, bytes) else msgpack.packb(told)
        notes += struct.pack("<III", 7, len(content), 32) + b"AMDGPU\0\0" + content + bytes(-len(content) % 4)
    at = 64 + 56
    header = (
        b"\x7fELF\2\1\1\x40\3"
        + bytes(7)
        + struct.pack("<HHIQQQIHHHHHH", 3, 224, 1, 0, 64, 0, 0x4C, 64, 56, 1, 64, 0, 0)
    )
    return header + struct.pack("<IIQQQQQQ", 4, 4, at, at, at, len(notes), len(notes), 4) + notes
