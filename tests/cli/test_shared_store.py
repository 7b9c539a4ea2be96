"""A build without a daemon says why it does not share."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.cli import main
from ckwatch.workspace.trust import trust
from helpers.rocm_trees import make_program, make_rocm

KERNEL = """\
template = "k.hip.j2"
[operation]
kind = "custom"
sizes = ["N"]
[[operation.output]]
name = "Y"
dtype = "f32"
sizes = ["N"]
[[instance]]
name = "one"
"""
TEMPLATE = 'extern "C" PT_EXPORT {{ def_kernel(inputs=[], outputs=[Y]) }} { return 0; }'


def test_said_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rocm = make_rocm(tmp_path / "rocm", "7.14.0", ck=False)
    make_program(rocm / "bin/hipcc", 'echo "kernel.hip:1:1: error: no" >&2; exit 1')
    root = tmp_path / "workspace"
    (root / "templates").mkdir(parents=True)
    (root / "ckwatch.toml").write_text(f'[toolchain]\nrocm = "{rocm}"\n[store]\nshared = "../shared"\n')
    (root / "k.kernel.toml").write_text(KERNEL)
    (root / "templates/k.hip.j2").write_text(TEMPLATE)
    trust(root)
    arguments = ["build", "-C", str(root), "--no-daemon", "--force"]
    assert main(["build", "-C", str(root), "--no-daemon"]) == 1
    assert capsys.readouterr().err.startswith(
        f"ckwatch: warning: the shared store {tmp_path / 'shared'} is not an existing folder: "
    )
    (tmp_path / "shared").mkdir()
    assert main(arguments) == 1
    assert capsys.readouterr().err == ""
    assert len([*tmp_path.glob("shared/artifacts/*/*/*.zip")]) == 1, "what does not compile is shared, too"
