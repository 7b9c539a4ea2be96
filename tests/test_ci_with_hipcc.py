"""A change of a kernel with the real hipcc and the emulator: broken, wrong and slower units of one commit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ckwatch.cli import main
from helpers.git_repositories import git
from helpers.scaling_kernel import SCALING

pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(1200)]

KERNEL = f"""\
{SCALING}[[shape]]
N = 128
[[instance]]
name = "kept"
Term = "3 * x[at]"
[[instance]]
name = "broken"
Term = "3 * x[at] + 0"
[[instance]]
name = "wrong"
Term = "x[at] * 3"
[[instance]]
name = "longer"
Term = "x[at] * 3.0f"
"""
TEMPLATE = """\
{#
  Term (string): what is stored
#}
{{ header("hip") }}
{{ globals("hip") }}
namespace {
__global__ void scale(const float* x, float* y, int n) {
  const int at = blockIdx.x * 64 + threadIdx.x;
  if (at < n) y[at] = {{ Term }};
}
}
extern "C" PT_EXPORT {{ kernel.def_kernel(inputs=[X], outputs=[Y]) }} {
  if (workspace_size) { *workspace_size = 0; return 0; }
  if (N < 1) return -23;
  scale<<<(N - 1) / 64 + 1, 64, 0, stream>>>(X, Y, N);
  return hipGetLastError();
}
"""


def test_a_commit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "w"
    (root / "templates").mkdir(parents=True)
    (root / "ckwatch.toml").touch()
    (root / "reference.py").write_text("def scale(X):\n    return 3 * X\n")
    (root / "templates/scale.hip.j2").write_text(TEMPLATE)
    (root / "scale.kernel.toml").write_text(KERNEL)
    git(root, "init", "--quiet", "--initial-branch", "main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "…")
    changed = KERNEL.replace("3 * x[at] + 0", "3 * z[at]").replace(
        "x[at] * 3.0f", "sqrtf(9.0f * x[at] * x[at]) * (x[at] < 0 ? -1 : 1)"
    )
    (root / "scale.kernel.toml").write_text(changed.replace('"x[at] * 3"', '"x[at] * 2"'))
    assert main(["ci", "--trust", "--profile", "--json", "-C", str(root)]) == 1
    found = json.loads(capsys.readouterr().out)
    units = {one["id"].partition("/")[2].partition("@")[0]: one for one in found["units"]}
    assert {name: one["change"]["verdict"] for name, one in units.items()} == {
        "broken": "broken", "wrong": "wrong", "longer": "changed"
    }  # fmt: skip
    before, after = (units["longer"]["change"][side]["counted"] for side in ("before", "after"))
    assert after["instructions"] > before["instructions"] > 0
    name = f"instructions per workgroup on {after['shape']}"
    assert [one["worse"] for one in units["longer"]["change"]["figures"] if one["name"] == name] == [True]
    assert units["broken"]["diagnostics"][0]["span"]["path"] == str(root / "scale.kernel.toml")
    (wrong,) = units["wrong"]["diagnostics"]
    assert (wrong["code"], wrong["span"]["path"]) == ("verify/wrong-result", str(root / "templates/scale.hip.j2"))
    assert TEMPLATE.splitlines()[wrong["span"]["start"]["line"]].strip() == "if (at < n) y[at] = {{ Term }};"
