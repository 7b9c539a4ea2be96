"""Findings as the emulator tells them."""

from __future__ import annotations

from typing import Any

TOLD: dict[str, Any] = {
    "kind": "out-of-bounds-read", "kernel": "_Z4gemm", "pc": 64, "text_address": 0x1900,
    "instruction": "global_load_dword v1, v[2:3], off", "other_pc": None, "other_instruction": None,
    "workgroup": [1, 0, 2], "wave": 3, "lane": 7, "other_wave": None, "other_lane": None,
    "address": str(0x11000), "bytes": 4, "region_base": None, "region_size": None, "note": "", "count": 5,
}  # fmt: skip
"""One, as native/findings.c writes it."""


def told(kind: str, **changes: Any) -> dict[str, Any]:
    """One of another kind."""
    return TOLD | {"kind": kind} | changes
