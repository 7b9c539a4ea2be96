"""What the profile says of ten shipped units of different kinds: the table of docs/profiling.md.

`python -m benchmarks.shipped_profiles` builds and profiles them for gfx942 and prints the table; `--write` writes it
into the page. Nothing of it is a time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent
PAGE = REPOSITORY / "docs" / "profiling.md"
ARCH = "gfx942"
UNITS = (
    ("gemm", "gemm_f16/v3_128x128x64_intrawave"),
    ("hip", "gemm_bf16_bias_silu/128x128x16"),
    ("softmax", "softmax_f16/block256"),
    ("rmsnorm_quantized", "rmsnorm_f16_i8/256x16"),
    ("rope", "rope_bf16_interleaved/block256"),
    ("reduction_and_scan", "scan_i32/256x8"),
    ("top_k", "top_k_f32/block256"),
    ("paged_gather", "paged_gather_f16/128x4"),
    ("dequantizing_gemv", "gemv_i4_f16/block256"),
    ("transpose", "transpose_f16/tile32"),
)
"""The example and the unit, without its arch."""

HEAD = "| unit | shape | lanes | cache lines | LDS ways | matrix instructions | most instructions | most is lost |"
RULE = "|---|---|---|---|---|---|---|---|"


def profiled(example: str, unit: str, folder: Path) -> dict[str, Any]:
    """Output of `ckwatch profile`. Raises CalledProcessError where there is none; what is wrong was printed then."""
    command = [
        sys.executable,
        "-m",
        "ckwatch",
        "profile",
        f"{unit}@{ARCH}",
        "-C",
        str(REPOSITORY / "examples" / example),
    ]
    environment = {**os.environ, "CKWATCH_TRUST_FILE": str(folder / "trusted")}
    printed = subprocess.run(
        [*command, "--trust", "--no-daemon", "--json"], check=True, stdout=subprocess.PIPE, env=environment
    )
    return dict(json.loads(printed.stdout.splitlines()[-1]))


def row(unit: str, found: Mapping[str, Any]) -> str:
    """A row of the table, of all kernels together."""
    totals = [kernel["total"] for kernel in found["kernels"]]
    lanes = sum(one["on_lanes"] * kernel["wave_lanes"] for one, kernel in zip(totals, found["kernels"], strict=True))
    counts = {key: sum(one["counts"][key] for one in totals) for key in totals[0]["counts"]}
    lines = ""
    if counts["requests"]:
        per, least = (counts[key] / counts["requests"] for key in ("cache_lines", "least_lines"))
        lines = f"{per:.3g}, at least {least:.3g}"
    ways = f"{counts['turns'] / counts['phases']:.3g}" if counts["phases"] else ""
    matrix = sum(one["mix"].get("mfma", 0) for one in totals)
    issued = sum(one["counts"]["issued"] for one in totals)
    own = ((line["own"]["counts"]["issued"], line) for kernel in found["kernels"] for line in kernel["lines"])
    most, line = max(own, key=lambda one: one[0])
    hottest = f"`{Path(line['path']).name}:{line['line'] + 1}`, {100 * most / issued:.0f} %"
    lost = "nothing clear"
    if found["hints"]:
        worst = found["hints"][0]
        lost = f"{worst['text']}, `{Path(worst['path']).name}:{worst['line'] + 1}` ({100 * worst['loss']:.0f} %)"
    active = f"{100 * sum(one['active_lanes'] for one in totals) / lanes:.0f} %" if lanes else ""
    shape = found["shape_name"] or found["shape"]
    return (
        f"| `{unit}` | {shape} | {active} | {lines} | {ways} | {f'{matrix:,}' if matrix else ''} | {hottest} | {lost} |"
    )


def with_table(page: str, rows: list[str]) -> str:
    """The page with these rows in place of the table's."""
    before, _, rest = page.partition(f"{HEAD}\n{RULE}\n")
    _, _, after = rest.partition("\n\n")
    return "\n".join([f"{before}{HEAD}", RULE, *rows, "", after])


def rows_of(folder: Path) -> Iterator[str]:
    for example, unit in UNITS:
        yield row(unit, profiled(example, unit, folder))


def main() -> None:
    print(HEAD, RULE, sep="\n")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for line in rows_of(Path(name)):
            rows.append(line)
            print(line, flush=True)
    if "--write" in sys.argv[1:]:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")


if __name__ == "__main__":
    main()
