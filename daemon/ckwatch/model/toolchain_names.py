"""Names of toolchains in configurations and commands.

rocm-6.4                 a ROCm, by as much of its version as tells it apart
rocm-7.2-clang-23        one that ckwatch has installed with another clang
ck-1.1.0                 Composable Kernel that ckwatch has installed
rocm-6.4+ck-1.1.0        both
/opt/rocm-7.0.2          a folder: a ROCm tree, or Composable Kernel's headers; with `+` also beside the other
"""

from __future__ import annotations

import re

_NAME = re.compile(r"(rocm|ck)-(\w[\w.]*(?:-[\w.]+)*)")
_JOINED = re.compile(r"\+(?=(?:rocm|ck)-\w|[/~.])")


def is_toolchain_name(text: str) -> bool:
    """Return True for the name of one ROCm or one Composable Kernel."""
    return _NAME.fullmatch(text) is not None


def toolchain_parts(text: str) -> tuple[str, ...]:
    """Return the names and folders that a name joins by `+`."""
    return tuple(_JOINED.split(text))


def is_version(text: str) -> bool:
    """Return True for a version or the first numbers of one."""
    return re.fullmatch(r"[0-9]+(\.[0-9]+)*", text) is not None


def fits_version(wanted: str, version: str) -> bool:
    """Return True if `version` begins with all numbers of the wanted one: 7.2.4 fits 7.2, and 7.20.1 does not."""
    return f"{version}.".startswith(f"{wanted}.")
