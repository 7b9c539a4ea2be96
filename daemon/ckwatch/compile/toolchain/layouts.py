"""What the files of a ROCm tree say about it."""

from __future__ import annotations

import re
from pathlib import Path

from ckwatch.system.user_files import read_file


def rocm_version(root: Path) -> str | None:
    """The release that a ROCm tree says it is, such as `7.2.4`; None when it does not say."""
    for name in (".info/version", ".info/version-dev"):
        try:
            return read_file(root / name).decode(errors="replace").strip().partition("-")[0]
        except OSError:
            continue
    found = re.search(r"rocm-(\d+\.\d+(\.\d+)?)", root.name)
    return found[1] if found else None


def hip_version(root: Path) -> str:
    """HIP's version from its header, such as `7.2.53211`; `unknown` when it does not say."""
    try:
        text = read_file(root / "include/hip/hip_version.h").decode(errors="replace")
    except OSError:
        return "unknown"
    numbers = dict(re.findall(r"#define HIP_VERSION_(MAJOR|MINOR|PATCH) +(\d+)", text))
    return ".".join(numbers.get(part, "0") for part in ("MAJOR", "MINOR", "PATCH")) if numbers else "unknown"
