"""The archs whose code objects an emulator executes on the CPU, and the devices that stand for it."""

from __future__ import annotations

EMULATED = "emulated"
"""The kind of device, as in `emulated:gfx942`."""

EMULATED_ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250")


def emulated_device(arch: str) -> str | None:
    """`emulated:gfx942` for `gfx942:xnack-`; None for an arch that is not emulated."""
    processor = arch.partition(":")[0]
    return f"{EMULATED}:{processor}" if processor in EMULATED_ARCHS else None
