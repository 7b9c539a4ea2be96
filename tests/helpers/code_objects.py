"""Real code objects, and what the compiler itself remarked on their kernels."""

from __future__ import annotations

import re
from pathlib import Path

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
