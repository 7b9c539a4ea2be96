"""`ckwatch import`: what is written, what is said, and what is refused."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

import ckwatch_templates
from cases.ck4inductor_fields import GEMM, install_list
from cases.inductor_text import InductorText, fetch_inductor_text
from ckwatch.checks.static_checks import static_checks
from ckwatch.cli import main
from ckwatch.cli.imports.wrapping import BASES
from ckwatch.compile.toolchain.composable_kernel import (
    RELEASES,
    ComposableKernelSources,
    find_sources,
    sources_folder,
)
from ckwatch.compile.toolchain.installations import cache_folder
from ckwatch.model.diagnostics import Severity
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.loading import Workspace, load_workspace

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/ckwatch.toml").write_text('[workspace]\narchs = ["gfx942"]\n')
    monkeypatch.chdir(tmp_path / "ws")
    return tmp_path / "ws"


V1 = {
    **GEMM,
    "m_per_block": 256,
    "m_xdl_per_wave": 4,
    "block_gemm_pipeline_version": "BlockGemmPipelineVersion::v1",
}


@pytest.fixture
def python_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed Composable Kernel that lists two instances."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return install_list(GEMM, V1)


def run(capsys: Capture, *words: str, status: int = 0) -> str:
    assert main(["import", *words]) == status
    printed = capsys.readouterr()
    return printed.out if status == 0 else printed.err


def errors_of(workspace: Workspace) -> list[str]:
    """Return the findings of loading, rendering and checks in each unit."""
    builtin = ckwatch_templates.ROOT
    renderer = Renderer(workspace.template_folders)
    found = [*workspace.errors]
    for unit in workspace.units:
        outcome = static_checks(unit, renderer.render(unit), rules=True, builtin=str(builtin))
        found += [one for one in outcome.diagnostics if one.severity is Severity.ERROR]
    return [one.message for one in found]


def test_instances_become_kernel_files_without_errors(root: Path, python_folder: Path, capsys: Capture) -> None:
    printed = run(capsys, "ck4inductor", "gemm")
    assert printed.splitlines()[0] == f"wrote {root}/kernels/gemm_f16_rcr.kernel.toml: 2 instances"
    assert "2 of 2 instances" in printed
    workspace = load_workspace(root)
    names = ["v1_256x128x64_intrawave", "v3_128x128x64_intrawave"]
    assert [unit.instance.name for unit in workspace.units] == names
    assert errors_of(workspace) == []


def test_files_that_are_there_are_kept(root: Path, python_folder: Path, capsys: Capture) -> None:
    run(capsys, "ck4inductor", "gemm", "--output", "mine")
    path = root / "mine/gemm_f16_rcr.kernel.toml"
    path.write_text("mine")
    assert f"already there: {path}" in run(capsys, "ck4inductor", "gemm", "--output", "mine", status=2)
    assert path.read_text() == "mine"
    run(capsys, "ck4inductor", "gemm", "--output", "mine", "--force")
    assert "[[instance]]" in path.read_text()


@pytest.mark.parametrize(
    ("filters", "chosen"),
    [
        (["m_per_block >= 128 and block_gemm_pipeline_version == 'v3'"], ["v3"]),
        (["MPerBlock == 256"], ["v1"]),
        (["BlkGemmPipelineVer=v1"], ["v1"]),
        (["block_gemm_pipeline_version = BlockGemmPipelineVersion::v3"], ["v3"]),
        (['block_gemm_pipeline_version == "BlockGemmPipelineVersion::v3"'], ["v3"]),
        (["m_per_block=128", "n_per_block=128"], ["v3"]),
        (["a_block_transfer_thread_cluster_lengths_ak0_m_ak1[1] == 32"], ["v1", "v3"]),
        (["a_block_transfer_src_access_order=(1, 0, 2)"], ["v1", "v3"]),
        (["a_compute_dtype is none"], ["v1", "v3"]),
        (["a_compute_dtype=none"], ["v1", "v3"]),
        (["m_per_block in (128, 512)"], ["v3"]),
    ],
)
def test_filters_take_both_spellings(
    filters: list[str], chosen: list[str], root: Path, python_folder: Path, capsys: Capture
) -> None:
    run(capsys, "ck4inductor", "gemm", *(word for one in filters for word in ("--filter", one)))
    assert [unit.instance.parameters["BlkGemmPipelineVer"] for unit in load_workspace(root).units] == chosen


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["gemm", "--filter", "m_per_blok >= 128"], "did you mean `m_per_block`?"),
        (["gemm", "--filter", "MPerBlok=128"], "which no field is called"),
        (["gemm", "--filter", "m_per_block >="], "is not a filter: "),
        (["gemm", "--filter", "m_per_block"], "neither true nor false"),
        (["gemm", "--filter", "m_per_block + 'x' == 1"], "the filter `m_per_block + 'x' == 1` fails"),
        (["gemm", "--filter", "m_per_block == 7"], "none of 2 instances is left"),
        (["gemm", "--template", "ck/gemm_universl.hip.j2"], "did you mean 'ck/gemm_universal.hip.j2'?"),
        (["gemm", "--template", "hip/gemm_tiled.hip.j2"], "reads neither m_per_block nor MPerBlock"),
        (["batched_gemm"], "ModuleNotFoundError"),
    ],
)
def test_what_cannot_be_done_is_said(
    words: list[str], expected: str, root: Path, python_folder: Path, capsys: Capture
) -> None:
    if words[-1] == "hip/gemm_tiled.hip.j2":
        (root / "templates/hip").mkdir(parents=True)
        (root / "templates/hip/gemm_tiled.hip.j2").write_text("{{ header() }}")
    assert expected in run(capsys, "ck4inductor", *words, status=2)
    assert not (root / "kernels").exists()


def test_a_folder_outside_of_the_workspace_is_said(
    root: Path, python_folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert main(["import", "ck4inductor", "gemm", "--output", str(tmp_path / "else")]) == 0
    assert "name it in `kernel_folders` of ckwatch.toml" in capsys.readouterr().err


def test_ck4inductor_that_is_missing_or_empty(root: Path, python_folder: Path, capsys: Capture) -> None:
    (python_folder / "gen_instances.py").write_text("def gen_ops_library():\n    return []\n")
    assert "lists no instance" in run(capsys, "ck4inductor", "gemm", status=2)
    shutil.rmtree(python_folder.parent)
    printed = run(capsys, "ck4inductor", "gemm", status=2)
    assert "is not installed\nckwatch: help: `ckwatch toolchain install ck` installs it" in printed


@pytest.mark.parametrize("named", ["checkout", "ck-1.1.0"])
def test_the_lists_are_those_of_the_workspaces_composable_kernel(
    root: Path, python_folder: Path, capsys: Capture, named: str
) -> None:
    """A checkout keeps the lists beside the package."""
    other = ComposableKernelSources(sources_folder(cache_folder(os.environ), RELEASES[1]))
    python = root / "checkout/python" if named == "checkout" else other.python
    package = python / "ck4inductor/universal_gemm"
    shutil.copytree(python_folder, package)
    (package.parent / "util.py").write_text("def library_path():\n    return '/nonexistent'\n")
    (python.parent / "library").mkdir()
    with (package / "gen_instances.py").open("a") as module:
        module.write(
            "\nfrom ck4inductor.util import library_path\n"
            "def gen_ops_library():\n    raise SystemExit(library_path())\n"
        )
    with (root / "ckwatch.toml").open("a") as settings:
        settings.write(f'[toolchain]\nck = "{named}"\n')
    assert f"fails: {python.parent}/library" in run(capsys, "ck4inductor", "gemm", status=2)


def test_ck4inductor_runs_without_this_environment(
    root: Path, python_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/nonexistent")
    monkeypatch.setenv("SECRET", "1")
    (python_folder / "gen_instances.py").write_text("import os\nraise SystemExit(sorted(os.environ))\n")
    assert "['LC_ALL', 'PATH']" in run(capsys, "ck4inductor", "gemm", status=2)


def test_a_template_of_inductor_gets_its_own_names(root: Path, python_folder: Path, capsys: Capture) -> None:
    (root / "templates").mkdir()
    (root / "templates/my.hip.j2").write_text('{% extends "inductor/ck_gemm.j2" %}{% block kernel %}{% endblock %}')
    run(capsys, "ck4inductor", "gemm", "--template", "my.hip.j2")
    text = (root / "kernels/gemm_f16_rcr.kernel.toml").read_text()
    assert 'template = "my.hip.j2"' in text
    assert 'block_gemm_pipeline_version = "BlockGemmPipelineVersion::v3"' in text


def test_a_copy_of_the_built_in_template_gets_the_names_of_ck(root: Path, python_folder: Path, capsys: Capture) -> None:
    (root / "templates").mkdir()
    (root / "templates/copy.hip.j2").write_text('{% extends "ck/gemm_universal.hip.j2" %}')
    run(capsys, "ck4inductor", "gemm", "--template", "copy.hip.j2")
    assert 'BlkGemmPipelineVer = "v3"' in (root / "kernels/gemm_f16_rcr.kernel.toml").read_text()


@pytest.mark.parametrize(("family", "listed"), [("gemm", 5304), ("batched_gemm", 904), ("convolution", 2248)])
def test_every_instance_of_ck_is_written_or_counted(family: str, listed: int, root: Path, capsys: Capture) -> None:
    if find_sources(cache_folder(os.environ)) is None:
        pytest.skip("ck4inductor is not installed; `ckwatch toolchain install` fetches it")
    answer = json.loads(run(capsys, "ck4inductor", family, "--json"))
    written = sum(file["instances"] for file in answer["files"])
    assert answer["listed"] == listed
    assert written + sum(answer["left_out"].values()) == listed
    assert written > 0.95 * listed
    for file in answer["files"]:
        names = re.findall('^name = "(v.*)"', Path(file["path"]).read_text(), re.MULTILINE)
        assert len({*names}) == file["instances"]
        assert not any(re.search(r"_\d+$", name) for name in names)


BODY = """{{version_comment}}
{{headers}}
{{globals}}
{{instance_definition}}
extern "C" {
PT_EXPORT {{kernel_definition}} {
    %s
    return 0;
}
}
"""
READ = {
    "inductor/ck_gemm.j2": "{{ instance_type }} op; /* {{ epilogue }} {{ ds_names }} {{ is_batched }} */",
    "inductor/ck_conv.j2": "{{ instance_type }} op; /* {{ n_d_tensors }} {{ input_layout }} {{ n_dim_spatial }} */",
    "inductor/ck_tile_gemm.j2": "{{ kernel_launch }}",
}


@pytest.mark.parametrize("base", [base.template for base in BASES])
def test_a_template_string_becomes_a_template_and_a_kernel_file_that_renders(
    base: str, root: Path, tmp_path: Path, capsys: Capture
) -> None:
    body = BODY % READ[base]
    (tmp_path / "my_template.py").write_text(f'import torch\n\nclass A(CKTemplate):\n    my_text = r"""{body}"""\n')
    printed = run(capsys, "inductor", str(tmp_path / "my_template.py"))
    assert f"templates/my.hip.j2: A.my_text, which extends {base}" in printed
    text = (root / "templates/my.hip.j2").read_text()
    assert text == f'{{% extends "{base}" %}}\n{{% block kernel %}}\n{body}\n{{% endblock %}}\n'
    assert errors_of(load_workspace(root)) == []


def test_a_text_that_needs_nothing_of_inductor_stays_alone(root: Path, tmp_path: Path, capsys: Capture) -> None:
    body = '{{ header() }}\nextern "C" PT_EXPORT {{ def_kernel(inputs=[X, W], outputs=[Y]) }} { return 0; }'
    (tmp_path / "own.py").write_text(f"T = '''{body}'''\n")
    run(capsys, "inductor", str(tmp_path / "own.py"), "--as", "mine")
    assert (root / "templates/mine.hip.j2").read_text() == body
    assert errors_of(load_workspace(root)) == []


@pytest.mark.parametrize(("name", "reason"), [(".hidden", "begins with a dot"), ("a/b", "has a `/`")])
def test_a_name_that_cannot_be_one_writes_nothing(
    root: Path, tmp_path: Path, capsys: Capture, name: str, reason: str
) -> None:
    (tmp_path / "own.py").write_text('T = """{{ header() }}"""\n')
    before = sorted(root.rglob("*"))
    assert main(["import", "inductor", str(tmp_path / "own.py"), "--as", name]) == 2
    assert reason in capsys.readouterr().err
    assert sorted(root.rglob("*")) == before


def test_names_that_nothing_sets_are_said(root: Path, tmp_path: Path, capsys: Capture) -> None:
    body = BODY % "{{ epilogue }} {{ my_option }} {% set mine = 1 %}{{ mine }} {{ arg_name(Bias) }}"
    (tmp_path / "own.py").write_text(f'T = r"""{body}"""\n')
    assert "reads what nothing sets: my_option; give it" in run(capsys, "inductor", str(tmp_path / "own.py"))
    text = (root / "kernels/own.kernel.toml").read_text()
    assert text.endswith("# my_option =\n")
    (root / "kernels/own.kernel.toml").write_text(text.replace("# my_option =", "my_option = 1"))
    assert errors_of(load_workspace(root)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1\ny = (\n", "own.py:2: this is not Python: '(' was never closed"),
        ("x = 1\n", "own.py: no name is assigned a string with Jinja"),
        ('a = "{{ x }}"\nb = "{{ y }}"\n', "choose one by --name: a (line 1), b (line 2)"),
        ('\na = "{{ x }}" % 1\n', "own.py:2: `a` is worked out when the program runs"),
        (None, "cannot read"),
    ],
)
def test_why_no_template_is_taken(text: str | None, expected: str, root: Path, tmp_path: Path, capsys: Capture) -> None:
    if text is not None:
        (tmp_path / "own.py").write_text(text)
    assert expected in run(capsys, "inductor", str(tmp_path / "own.py"), status=2)
    assert sorted(path.name for path in root.iterdir()) == ["ckwatch.toml"]


def test_nothing_is_written_where_one_of_the_files_is_there(root: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "own.py").write_text('a = "{{ x }}"\n')
    (root / "kernels").mkdir()
    (root / "kernels/own.kernel.toml").write_text("mine")
    assert "already there" in run(capsys, "inductor", str(tmp_path / "own.py"), status=2)
    assert not (root / "templates").exists()


@pytest.fixture(scope="module")
def inductor() -> InductorText:
    return fetch_inductor_text()


@pytest.mark.network
@pytest.mark.parametrize(
    ("name", "strings"),
    [
        ("ck_universal_gemm_template", ("gemm",)),
        ("ck_conv_template", ("convolution",)),
        ("ck_tile_universal_gemm_template", ("tile_gemm", "tile_launch", "tile_definition")),
    ],
)
def test_files_of_pytorch_are_taken_as_they_are(
    name: str, strings: tuple[str, ...], inductor: InductorText, root: Path, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / f"{name}.py").write_text(inductor.files[f"{name}.py"])
    run(capsys, "inductor", str(tmp_path / f"{name}.py"))
    text = (root / f"templates/{name.removesuffix('_template')}.hip.j2").read_text()
    added = text
    for string in strings:
        assert getattr(inductor, string) in text
        added = added.replace(getattr(inductor, string), "\n", 1)
    assert len([line for line in added.splitlines() if line.strip()]) <= 5
    assert errors_of(load_workspace(root)) == []
