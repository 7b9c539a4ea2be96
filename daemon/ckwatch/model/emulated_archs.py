"""The archs whose code objects an emulator executes on the CPU, and the devices that stand for it."""

from __future__ import annotations

from collections.abc import Mapping

EMULATED = "emulated"
"""The kind of device, as in `emulated:gfx942`."""

EMULATED_ARCHS: Mapping[str, str] = {
    **{arch: arch for arch in ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250")},
    "gfx9-4-generic": "gfx942",
    **dict.fromkeys(("gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"), "gfx1100"),
    "gfx11-generic": "gfx1100",
    "gfx1200": "gfx1201",
    "gfx12-generic": "gfx1201",
    "gfx1251": "gfx1250",
    "gfx12-5-generic": "gfx1250",
}
"""By arch, the one as which its code is executed: that has the same instructions, but for some that are not known."""


def emulated_device(arch: str) -> str | None:
    """`emulated:gfx942` for `gfx942:xnack-`; None for an arch that is not emulated."""
    processor = arch.partition(":")[0]
    return f"{EMULATED}:{processor}" if processor in EMULATED_ARCHS else None


def not_emulated(arch: str) -> str:
    """The sentence for an arch that is not emulated."""
    *others, last = dict.fromkeys(EMULATED_ARCHS.values())
    return f"{arch} is not emulated; {', '.join(others)} and {last} are, and archs with their instructions"
