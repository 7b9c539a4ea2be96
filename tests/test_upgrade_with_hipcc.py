"""What other headers would change, with the real hipcc and the emulator: a few lines stand in for Composable Kernel's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ckwatch.cli import main
from helpers.scaling_kernel import SCALING

pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(1200)]

KERNEL = f"""\
{SCALING}[[instance]]
name = "usual"
Use = "Problem<float>"
[[instance]]
name = "explicit"
Use = "Problem<float, true, 3>"
"""
TEMPLATE = """\
{#
  Use (string): the problem
#}
{{ header("hip") }}
{{ globals("hip") }}
#include "ck_tile/problem.hpp"
namespace {
__global__ void scale(const float* x, float* y, int n) {
  const int at = blockIdx.x * 64 + threadIdx.x;
  if (at < n) y[at] = ck_tile::{{ Use }}::Factor * x[at];
}
}
extern "C" PT_EXPORT {{ kernel.def_kernel(inputs=[X], outputs=[Y]) }} {
  if (workspace_size) { *workspace_size = 0; return 0; }
  if (N < 1) return -23;
  scale<<<(N - 1) / 64 + 1, 64, 0, stream>>>(X, Y, N);
  return hipGetLastError();
}
"""
OLD = """\
#pragma once
namespace ck_tile {
template <typename T_, bool HasHotLoop_ = true, int Factor_ = 3>
struct Problem { static constexpr T_ Factor = Factor_; };
}
"""
NEW = OLD.replace("bool HasHotLoop_ = true, int Factor_ = 3", "int Factor_ = 4")


@pytest.fixture
def root(trusted: Path, tmp_path: Path) -> Path:
    """A workspace that uses the headers in `old`; those in `new` have another default, and a parameter less."""
    for name, text in (("old", OLD), ("new", NEW)):
        for path, content in (
            ("ck/ck.hpp", ""),
            ("ck/config.h", ""),
            ("ck_tile/core.hpp", ""),
            ("ck_tile/problem.hpp", text),
        ):
            file = tmp_path / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
    (tmp_path / "ckwatch.toml").write_text('[toolchain]\nck = "old"\n[verify]\nautomatic = "off"\n')
    (tmp_path / "scale.kernel.toml").write_text(KERNEL)
    (tmp_path / "reference.py").write_text("def scale(X):\n    return 3 * X\n")
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates/scale.hip.j2").write_text(TEMPLATE)
    return tmp_path


def test_a_default_and_a_parameter_that_are_not_what_they_were(
    root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CKWATCH_NO_DAEMON", "1")
    monkeypatch.chdir(root)
    assert main(["upgrade", "--to", "new"]) == 1
    text, errors = capfd.readouterr()
    assert errors == ""
    assert (
        "1 unit: `Problem` no longer has `HasHotLoop_`; write `Problem<float, 3>`\n"
        "✗ scale/explicit@gfx942  no longer compiles: "
    ) in text
    assert "✗ scale/usual@gfx942  wrong result: ✗ " in text
    assert text.endswith(
        "2 units: no longer compile: 1, wrong results: 1\n"
        "What was built and verified is in the store: after the upgrade it is found there.\n"
    )
    assert f", CK without a version at {root}/new\n" in text

    (root / "ckwatch.toml").write_text('[toolchain]\nck = "new"\n[verify]\nautomatic = "off"\n')
    assert main(["build", "--json"]) == 1
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    built = {line["instance"]: (line["outcome"], line["from_store"]) for line in lines if line["event"] == "unit"}
    assert built == {"usual": ("built", True), "explicit": ("failed", True)}
