"""The shipped GEMM example, compiled by the real hipcc: every instance, and what the artifacts hold.

It uses the user's own store, so that `make demo`, these tests and a second run share what was compiled.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import ckwatch_templates
from ckwatch.cli import main
from ckwatch.compile.elf import exported_symbols
from ckwatch.compile.toolchain.discover import discover

ROOT = Path(__file__).parent.parent
pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(7200)]


def build(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit status and the units of `ckwatch build … --json`."""
    status = main(["build", *arguments, "--json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return status, [line for line in lines if line["event"] == "unit"]


def test_every_shipped_instance_compiles_and_then_comes_from_the_store(capsys: pytest.CaptureFixture[str]) -> None:
    status, units = build(capsys, str(ROOT / "examples/gemm"))
    assert [(unit["unit"], unit["diagnostics"]) for unit in units if unit["outcome"] != "built"] == []
    assert status == 0
    f16 = [unit["instance"] for unit in units if unit["kernel"] == "gemm_f16"]
    assert len(f16) >= 8
    assert {name.split("_")[0] for name in f16} >= {"v1", "v3", "v4"}
    assert {name.rsplit("_", 1)[-1] for name in f16} >= {"intrawave", "interwave"}
    assert not any(diagnostic["severity"] == "error" for unit in units for diagnostic in unit["diagnostics"])
    status, again = build(capsys, str(ROOT / "examples/gemm"))
    assert status == 0
    assert all(unit["from_store"] for unit in again)
    first = units[0]
    assert exported_symbols(Path(first["products"]["shared-object"])) == (first["symbol"],)
    notes = subprocess.run(
        [discover().readelf, "--notes", first["products"]["code-object"]], capture_output=True, text=True, check=True
    ).stdout
    assert re.search(r"^amdhsa.target: +'?amdgcn-amd-amdhsa--gfx942'?$", notes, re.MULTILINE)
    assert ".vgpr_count:" in notes


@pytest.mark.parametrize("arch", ["gfx90a", "gfx950"])
def test_other_archs(arch: str, capsys: pytest.CaptureFixture[str]) -> None:
    example = str(ROOT / "examples/gemm")
    status, units = build(capsys, "gemm_f16/v3_128x128x64_intrawave", "-C", example, "--arch", arch)
    assert (status, [unit["outcome"] for unit in units]) == (0, ["built"])


def test_a_comment_compiles_nothing(trusted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workspace = tmp_path / "gemm"
    shutil.copytree(ROOT / "examples/gemm", workspace)
    template = workspace / "templates/ck/gemm_universal.hip.j2"
    template.parent.mkdir(parents=True)
    shutil.copy(ckwatch_templates.ROOT / "ck/gemm_universal.hip.j2", template)
    one = "gemm_f16/v3_128x128x64_intrawave"
    # The folders in which headers of the workspace would be are part of the key: the copy is compiled once.
    assert build(capsys, one, "-C", str(workspace))[0] == 0
    template.write_text(template.read_text() + "\n// a comment\n\n")
    status, units = build(capsys, one, "-C", str(workspace))
    assert (status, [unit["from_store"] for unit in units]) == (0, [True])
