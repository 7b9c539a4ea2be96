"""Headers that a HIP source includes and that are not there: which, and stand-ins for those that are simple.

A stand-in for PyTorch or CUDA holds the names that host code around kernels mentions, so that the file compiles; that
code does nothing and is never called.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ckwatch.compile.flags import HIP_FLAGS, known_flags
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.system.processes import run_blocking

STAND_INS = Path(__file__).parent / "stand_ins"
FOLDER = "stand_ins"
"""The folder of a workspace that holds them."""

TIMEOUT_S = 60
_TORCH = re.compile(r"(?:torch|ATen|c10|pybind11)/[\w/]+\.(?:h|hpp|cuh)")
_TORCH_FILE = "torch_stand_in.h"


def missing_headers(text: str, flags: Sequence[str], folders: Sequence[Path], toolchain: Toolchain) -> list[str]:
    """The headers, by the names under which they are included, that the preprocessor does not find for a source.

    `folders` are searched for `#include "…"`. Blocks. Raises OSError, ProcessStartError or TimeoutError.
    """
    import tempfile

    with tempfile.TemporaryDirectory(prefix="ckwatch-headers-") as work:
        source = Path(work) / "source.hip"
        source.write_text(text)
        words = [
            str(toolchain.clangxx),
            *toolchain.hip_arguments,
            *known_flags(HIP_FLAGS, toolchain),
            "--offload-host-only",
            "-M",
            "-MG",
        ]
        for folder in folders:
            words += ["-iquote", str(folder), "-idirafter", str(folder)]
        for folder in toolchain.include_folders:
            words += ["-isystem", str(folder)]
        done = run_blocking([*words, *flags, str(source)], environment=toolchain.environment, timeout_s=TIMEOUT_S)
    _, _, listed = done.stdout.partition(":")
    names = re.split(r"(?<!\\)\s+", listed.replace("\\\n", " "))
    return [name for name in dict.fromkeys(names) if name and not name.startswith("/")]


@cache
def _own() -> frozenset[str]:
    return frozenset(str(path.relative_to(STAND_INS)) for path in STAND_INS.rglob("*.h*"))


def stand_ins(names: Sequence[str]) -> dict[str, str]:
    """The texts of stand-ins for these headers, and of what they include, by their names."""
    found: dict[str, str] = {}
    for name in names:
        if name in _own():
            found[name] = (STAND_INS / name).read_text("utf-8")
        elif _TORCH.fullmatch(name):
            found[name] = f'#pragma once\n#include "{_TORCH_FILE}"\n'
    if any("torch_stand_in" in text for text in found.values()):
        names = [*names, _TORCH_FILE, "cuda_runtime.h"]
    if any("cuda_runtime" in text for text in found.values()):
        names = [*names, "cuda_runtime.h"]
    found |= {name: (STAND_INS / name).read_text("utf-8") for name in names if name in _own()}
    return found
