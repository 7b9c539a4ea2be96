"""The compile that is asked for a unit: where its own headers are looked for, what its flags are relative to,
and its limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.compile.rendered_unit import compile_request
from ckwatch.compile.request import CompileRequest
from ckwatch.render.outcome import RenderOutcome
from ckwatch.render.renderer import Renderer
from helpers.workspaces import gemm_kernel, workspace

KERNEL = gemm_kernel("gemm/k.hip.j2", {"one": {"Tile": 16}})
FILES = {
    "kernels/k.kernel.toml": KERNEL.replace("\n", '\nflags = ["-I", "more", "-Ihere"]\n', 1),
    "templates/gemm/k.hip.j2": '{% include "parts/device.j2" %}\n{% include "hooks/header_hip.j2" %}\n{{ Tile }}\n',
    "templates/parts/device.j2": "\n",
    "ckwatch.toml": '[compile]\ntimeout_s = 5\nstalled_s = 7\nflags = ["-I../shared", "-Llib", "-O2"]\n',
}


def request(root: Path, *, awaited: bool = False) -> CompileRequest:
    loaded = workspace(root, FILES)
    (unit,) = loaded.units
    outcome: RenderOutcome = Renderer(loaded.template_folders).render(unit)
    assert outcome.rendered is not None
    return compile_request(loaded, unit, outcome.rendered, awaited=awaited)


def test_own_headers_are_looked_for_beside_what_includes_them(tmp_path: Path) -> None:
    names = [str(folder.relative_to(tmp_path)) for folder in request(tmp_path).include_folders]
    assert names == ["templates/gemm", "templates/parts", "templates", "kernels", "."]


def test_folders_in_flags_are_relative_to_the_settings(tmp_path: Path) -> None:
    shared = tmp_path.parent / "shared"
    expected = (f"-I{shared}", f"-L{tmp_path}/lib", "-O2", "-I", f"{tmp_path}/more", f"-I{tmp_path}/here")
    assert request(tmp_path).flags == expected


@pytest.mark.parametrize(("awaited", "nice"), [(False, 10), (True, 0)])
def test_what_somebody_waits_for_makes_no_way(tmp_path: Path, awaited: bool, nice: int) -> None:
    found = request(tmp_path, awaited=awaited)
    assert (found.nice, found.timeout_s, found.stalled_s) == (nice, 5, 7)
