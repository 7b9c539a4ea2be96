"""A ROCm without Composable Kernel: said once, with what fixes it, and no compiler is started for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.cli import main
from ckwatch.compile.toolchain.installations import cache_folder
from ckwatch.workspace.trust import trust
from helpers.rocm_trees import make_program, make_rocm, make_sources

TEMPLATE = """\
{include}
{{{{ header("hip") }}}}
{{{{ globals("hip") }}}}
extern "C" PT_EXPORT {{{{ def_kernel(inputs=[], outputs=[Y]) }}}} {{ return 0; }}
"""
KERNEL = """\
template = "{template}.hip.j2"
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
SENTENCE = (
    "ckwatch: error: ROCm 7.14.0 at {rocm} has no headers of Composable Kernel (`{name}/`): "
    "run `ckwatch toolchain install ck`, or name a folder that has them with `{name}` in [toolchain] of ckwatch.toml\n"
)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace, and a ROCm of 7.14, whose hipcc counts its calls and fails."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("CKWATCH_TRUST_FILE", str(tmp_path / "trusted"))
    rocm = make_rocm(tmp_path / "rocm", "7.14.0", ck=False)
    make_program(rocm / "bin/hipcc", f'echo call >> "{tmp_path}/calls"; echo "no such thing" >&2; exit 1')
    workspace = tmp_path / "workspace"
    (workspace / "templates").mkdir(parents=True)
    (workspace / "ckwatch.toml").write_text(f'[toolchain]\nrocm = "{rocm}"\n[workspace]\ntemplates = ["templates"]\n')
    trust(workspace)
    return workspace


def add(root: Path, name: str, include: str) -> None:
    (root / f"templates/{name}.hip.j2").write_text(TEMPLATE.format(include=include))
    (root / f"{name}.kernel.toml").write_text(KERNEL.format(template=name))


@pytest.mark.parametrize(
    ("include", "name"), [("#include <ck/ck.hpp>", "ck"), ('  # include "ck_tile/core.hpp"', "ck_tile")]
)
def test_it_is_said_once_and_nothing_is_compiled(
    root: Path, capsys: pytest.CaptureFixture[str], include: str, name: str
) -> None:
    for kernel in ("first", "second"):
        add(root, kernel, include)
    assert main(["build", "-C", str(root), "--no-daemon"]) == 2
    assert capsys.readouterr().err == SENTENCE.format(rocm=root.parent / "rocm", name=name)
    assert not (root.parent / "calls").exists()


@pytest.mark.parametrize("where", ["fetched", "named", "flag", "own", "not included"])
def test_with_the_headers_it_is_compiled(root: Path, capsys: pytest.CaptureFixture[str], where: str) -> None:
    headers = root.parent / "other"
    add(root, "kernel", "" if where == "not included" else "#include <ck/ck.hpp>")
    settings = root / "ckwatch.toml"
    match where:
        case "fetched":
            headers = make_sources(cache_folder({"XDG_CACHE_HOME": str(root.parent / "cache")})).ck
        case "named":
            settings.write_text(settings.read_text().replace("[toolchain]", f'[toolchain]\nck = "{headers}"'))
        case "flag":
            settings.write_text(f'{settings.read_text()}[compile]\nflags = ["-isystem", "{headers}"]\n')
        case "own":
            headers = root
    for name in ("ck.hpp", "config.h"):
        (headers / "ck").mkdir(parents=True, exist_ok=True)
        (headers / "ck" / name).write_text("")
    trust(root)
    main(["build", "-C", str(root), "--no-daemon"])
    assert "Composable Kernel" not in capsys.readouterr().err
    assert (root.parent / "calls").exists()
