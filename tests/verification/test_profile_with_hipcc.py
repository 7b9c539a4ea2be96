"""Profiles of a shipped kernel that the real hipcc compiled, with the conflicts that its addresses must have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ckwatch.cli import main

TRANSPOSE = Path(__file__).parents[2] / "examples" / "transpose"
TILES = Path(__file__).parents[1] / "data" / "lds" / "transposed_tiles"
TEMPLATE = (TRANSPOSE / "templates" / "transpose.hip.j2").read_text().splitlines()
pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(1800)]


def line_of(text: str) -> int:
    (found,) = [number for number, line in enumerate(TEMPLATE) if text in line]
    return found


def profiled(capsys: pytest.CaptureFixture[str], instance: str) -> dict[str, Any]:
    unit = f"transpose_f16/{instance}@gfx942"
    assert main(["profile", unit, "--shape", "M=256,N=256", "-C", str(TRANSPOSE), "--no-daemon", "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out.splitlines()[-1]))


def line_at(kernel: dict[str, Any], line: int) -> dict[str, Any]:
    (found,) = [one for one in kernel["lines"] if one["in_template"] and one["line"] == line]
    return dict(found["own"]["counts"])


def test_the_conflicts_of_a_transpose_are_those_of_its_padding(capsys: pytest.CaptureFixture[str]) -> None:
    """32 lanes read a column of halves whose rows are 64 bytes apart, or 68: 16 words of one bank, or of 32 banks."""
    write, read = line_of("lds[row][threadIdx.x] ="), line_of("= lds[threadIdx.x][row]")
    unpadded, padded = (profiled(capsys, name) for name in ("pad_0", "tile32"))
    for found, ways in ((unpadded, 16), (padded, 1)):
        (kernel,) = found["kernels"]
        assert (kernel["workgroups"], kernel["all_workgroups"], kernel["line_bytes"]) == (8, 64, 128)
        assert found["executed"] == kernel["total"]["counts"]["issued"]
        assert sum(one["counts"]["issued"] for one in kernel["instructions"]) == found["executed"]
        assert line_at(kernel, read)["turns"] == ways * line_at(kernel, read)["phases"]
        assert line_at(kernel, write)["turns"] == line_at(kernel, write)["phases"]
        # 8 workgroups of 4 waves, each of which stores its two rows of 32 halves 4 times
        assert line_at(kernel, read)["requests"] == 8 * 4 * 4
        assert line_at(kernel, read)["bytes"] == 8 * 32 * 32 * 2
    (hint,) = [hint for hint in unpadded["hints"] if hint["kind"] == "lds-conflict"]
    assert (hint["line"], hint["text"]) == (read, "16-way LDS conflict")
    assert not [hint for hint in padded["hints"] if hint["kind"] == "lds-conflict"]


PUBLISHED = {
    "rows": (3_670_016, 294_912), "columns": (1_572_864, 294_912), "padded": (786_432, 327_680),
    "swizzled": (0, 294_912),
}  # fmt: skip
"""SQ_LDS_BANK_CONFLICT and SQ_INSTS_LDS of four ways to transpose a [65536 × 256] matrix of halves on MI300 and MI355, by
the slides in the branch `aghamari/ua-on-develop-v2` of Composable Kernel (April 2026)."""


def test_published_counters_of_a_transposed_matrix_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """To the last one, with the instructions that the slides list. A padding of two halves leaves rows that begin at
    words, not at 16 bytes: each write becomes two `ds_write2_b32`, which explains the further instructions, too."""
    counted = {}
    for instance in PUBLISHED:
        unit = f"tiles/{instance}@gfx942"
        assert main(["profile", unit, "-C", str(TILES), "--trust", "--no-daemon", "--no-lines", "--json"]) == 0
        (kernel,) = json.loads(capsys.readouterr().out.splitlines()[-1])["kernels"]
        counts = kernel["total"]["counts"]
        instructions = sum(one["counts"]["issued"] for one in kernel["instructions"] if one["text"].startswith("ds_"))
        all_of = kernel["all_workgroups"] // kernel["workgroups"]
        counted[instance] = ((counts["turns"] - counts["phases"]) * all_of, instructions * all_of)
    assert counted == PUBLISHED
