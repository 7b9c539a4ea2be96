"""The architectures that a unit can be compiled for, as clang's `--offload-arch` names them.

The table is that of LLVM's AMDGPU user guide, section Processors: an arch and its target features that can be fixed
with `:xnack+` and the like.
"""

from __future__ import annotations

import re

XNACK_AND_SRAMECC = ("sramecc", "xnack")

ARCHS: dict[str, tuple[str, ...]] = {
    "gfx906": XNACK_AND_SRAMECC,
    "gfx908": XNACK_AND_SRAMECC,
    "gfx90a": XNACK_AND_SRAMECC,
    "gfx942": XNACK_AND_SRAMECC,
    "gfx950": XNACK_AND_SRAMECC,
    "gfx1030": (),
    "gfx1031": (),
    "gfx1032": (),
    "gfx1100": (),
    "gfx1101": (),
    "gfx1102": (),
    "gfx1103": (),
    "gfx1150": (),
    "gfx1151": (),
    "gfx1200": (),
    "gfx1201": (),
}

NATIVE = "native"
"""The archs of the devices in this machine, resolved when a unit is compiled."""

HOST = "host"
"""The CPU; the only arch of C++ templates (`*.cpp.j2`)."""

_ARCH = re.compile(r"(?P<name>[^:]*)(?P<features>(:[^:]*)*)")


def why_unknown(arch: str) -> tuple[str, str] | None:
    """None for an arch that can be compiled for, else what is wrong and the part of `arch` that is."""
    if arch in (NATIVE, HOST):
        return None
    found = _ARCH.fullmatch(arch)
    name = found["name"] if found else arch
    if name not in ARCHS:
        return f"unknown arch `{name}`", name
    seen = set()
    for feature in found["features"].split(":")[1:] if found else ():
        allowed = ARCHS[name]
        if feature[:-1] not in allowed or feature[-1:] not in ("+", "-"):
            forms = ", ".join(f":{known}+ :{known}-" for known in allowed) or "none"
            return f"unknown target feature `:{feature}` of {name}; it has: {forms}", feature
        if feature[:-1] in seen:
            return f"target feature `{feature[:-1]}` is given twice", feature
        seen.add(feature[:-1])
    return None
