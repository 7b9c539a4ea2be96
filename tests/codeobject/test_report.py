"""A code object in one line."""

from __future__ import annotations

import pytest

from ckwatch.codeobject.report import CodeObjectReport, headline
from helpers.kernel_reports import kernel, report


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (report(), ""),
        (report(kernel()), "189 VGPR, 32768 B LDS, 2 waves/SIMD (VGPR), MFMA use 95 % predicted"),
        # the one that does the work, not the one that comes first
        (
            report(kernel(vgprs=12, with_loop=None), kernel(waves=1)),
            "189 VGPR, 32768 B LDS, 1 wave/SIMD (VGPR), MFMA use 95 % predicted",
        ),
        (
            report(
                kernel(waves=None, with_loop=None, agprs=64, lds_bytes=0, vgpr_spills=3, sgpr_spills=1, scratch_bytes=8)
            ),
            "189 VGPR, 64 AGPR, 4 spilled, 8 B scratch",
        ),
    ],
)
def test_headlines(found: CodeObjectReport, expected: str) -> None:
    assert headline(found) == expected
