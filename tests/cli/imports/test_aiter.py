"""`ckwatch import aiter`: lists of AITER's are read, never run, and become kernel files without errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.checks.aiter_instances import LISTS, ListError
from ckwatch.cli import main
from ckwatch.cli.imports.aiter_lists import known_names, plan_import, read_list
from ckwatch.model.diagnostics import Severity
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.loading import load_workspace

Capture = pytest.CaptureFixture[str]

ROWWISE = '''
from dataclasses import dataclass
raise SystemExit("this is never run")

@dataclass
class kernelInstance:
    BLOCK_SIZE: int
    MPerBLOCK: int
    NPerBLOCK: int
    KPerBLOCK: int
    WAVE_TILE_M: int
    WAVE_TILE_N: int
    WAVE_MAP_M: int
    WAVE_MAP_N: int
    ABLOCK_TRANSFER: list[int]
    BBLOCK_TRANSFER: list[int]
    CBLOCK_TRANSFER: list[int]
    CBLOCK_SPV: list[int]
    CSHUFFLE_MX_PER_WAVE_PERSHUFFLE: int
    CSHUFFLE_NX_PER_WAVE_PERSHUFFLE: int
    LOOP_SCHED: str
    PIPELINE_VERSION: int

    @property
    def name(self) -> str:
        """Name of the instance."""
        return ("_").join(["LIST", ("x").join(map(lambda x: str(x), [self.BLOCK_SIZE]))])

kernels_list = {
    0: kernelInstance(256, 128, 128, 128, 32, 32, 2, 2, [8, 32, 1], [8, 32, 1], [1, 32, 1, 8], [8, 8, 1], 1, 1, "Intrawave", 3),
    1: kernelInstance(256, 16, 64, 512, 16, 16, 1, 1, [32, 8, 1], [32, 8, 1], [1, 16, 1, 16], [4, 4, 1], 1, 1, "Intrawave", PIPELINE_VERSION=3),
    2: kernelInstance(256, 128, 128, 128, 32, 32, 2, 2, [8, 32, 1], [8, 32, 1], [1, 32, 1, 8], [8, 8, 1], 1, 1, "Intrawave", 3),
}
'''
BLOCKS = ROWWISE.replace(
    "    MPerBLOCK: int", "    ScaleBlockM: int\n    ScaleBlockN: int\n    ScaleBlockK: int\n    MPerBLOCK: int"
)
for name, more in (("WAVE_TILE_M", "MPerXDL"), ("WAVE_TILE_N", "NPerXDL"), ("LOOP_SCHED", "PIPELINE_Sched")):
    BLOCKS = BLOCKS.replace(name, more)
BLOCKS = (
    BLOCKS.replace("    MPerXDL: int", "    AK1: int\n    BK1: int\n    MPerXDL: int")
    .replace("Instance(256, ", "Instance(256, 1, 128, 128, ")
    .replace("128, 128, 128, 32, 32,", "128, 128, 128, 16, 16, 32, 32,")
    .replace("512, 16, 16, 1, 1,", "512, 16, 16, 16, 16, 1, 1,")
    .replace("[8, 8, 1]", "[8]")
    .replace("[4, 4, 1]", "[4]")
    .replace('Intrawave", PIPELINE_VERSION=3', 'Intrawave", PIPELINE_VERSION=1')
)
FIRST = "a8w8_rowwise_256x128x128x128_32x32_2x2_8x32x1_8x32x1_1x32x1x8_8x8x1_1x1_intrawave_v3"
SECOND = "a8w8_rowwise_256x16x64x512_16x16_1x1_32x8x1_32x8x1_1x16x1x16_4x4x1_1x1_intrawave_v3"


def of(name: str) -> str:
    """The text of a list."""
    return (BLOCKS if LISTS[name].scale_blocks else ROWWISE).replace("LIST", name)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx950"]\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_instances_are_called_as_in_aiter() -> None:
    listed = read_list(of("a8w8_rowwise"))
    assert list(listed.instances) == [FIRST, SECOND]
    assert listed.repeated == 1
    assert known_names(listed)["MPerXDL"] == known_names(listed)["WAVE_TILE_M"] == "WAVE_TILE_M"


@pytest.mark.parametrize("name", ["a8w8_rowwise", "a8w8_batched_rowwise", "bf16_batched", "a8w8_blockscale"])
def test_a_list_becomes_kernel_files_that_render_without_errors(name: str, root: Path, capsys: Capture) -> None:
    (root / "list.py").write_text(of(name))
    assert main(["import", "aiter", "list.py"]) == 0
    printed = capsys.readouterr().out
    operations = len(LISTS[name].operations)
    assert f"left out {operations} instance" in printed
    assert f"{2 * operations} of {3 * operations} instances" in printed
    workspace = load_workspace(root)
    assert not list(workspace.errors)
    renderer = Renderer(tuple(workspace.template_folders))
    units = list(workspace.units)
    assert len(units) == 2 * operations
    for unit in units:
        assert unit.instance.name.startswith(name)
        assert unit.instance.parameters["GemmSpec"] == "MNKPadding"
        outcome = renderer.render(unit)
        assert outcome.rendered is not None, outcome.diagnostics
        assert not [one for one in outcome.diagnostics if one.severity is Severity.ERROR]


def test_scales_per_block_go_into_the_operation(root: Path) -> None:
    (root / "list.py").write_text(of("a8w8_blockscale"))
    assert main(["import", "aiter", "list.py", "--gemm-spec", "Default", "--filter", "PIPELINE_VERSION=1"]) == 0
    (unit,) = load_workspace(root).units
    assert unit.kernel.name == "a8w8_blockscale_f8_1x128x128"
    assert unit.kernel.operation.settings["scale_block"] == (1, 128, 128)
    assert unit.instance.parameters["GemmSpec"] == "Default"
    assert unit.instance.parameters["BlkGemmPipelineVer"] == "v1"
    assert unit.instance.parameters["BBlockTransferSrcScalarPerVector"] == 16
    assert "ScaleBlockM" not in unit.instance.parameters


MICROSCALED = """
class kernelInstance:
    BLOCK_SIZE: int
    MPerBLOCK: int
    NPerBLOCK: int
    KPerBLOCK: int
    AK1: int
    BK1: int
    MPerXDL: int
    NPerXDL: int
    WAVE_MAP_M: int
    WAVE_MAP_N: int
    ABLOCK_TRANSFER: list[int]
    BBLOCK_TRANSFER: list[int]
    CSHUFFLE_MX_PER_WAVE_PERSHUFFLE: int
    CSHUFFLE_NX_PER_WAVE_PERSHUFFLE: int
    CBLOCK_TRANSFER: list[int]
    CBLOCK_SPV: int
    PIPELINE_Sched: str
    PIPELINE_VERSION: int

    def name(self):
        return "_".join(["a4w4_blockscale"])

kernels_list = {
    0: kernelInstance(256, 64, 128, 128, 16, 16, 16, 16, 4, 2, [8, 32, 1], [8, 32, 1], 2, 2, [1, 32, 1, 8], 8, "Intrawave", 3),
}
"""


def test_microscaled_instances_have_a_weight_of_either_order(root: Path) -> None:
    (root / "list.py").write_text(MICROSCALED)
    assert main(["import", "aiter", "list.py"]) == 0
    workspace = load_workspace(root)
    units = {unit.kernel.name: unit for unit in workspace.units}
    assert list(units) == ["a4w4_blockscale", "a4w4_blockscale_bpreshuffle"]
    renderer = Renderer(tuple(workspace.template_folders))
    for name, unit in units.items():
        assert (
            unit.instance.name == "a4w4_blockscale_256x64x128x128_16x16_16x16_8x32x1_8x32x1_1x32x1x8_8_2x2_intrawave_v3"
        )
        outcome = renderer.render(unit)
        assert outcome.rendered is not None, outcome.diagnostics
        assert ("/* BLayout */ MFMA" in outcome.rendered.text) == name.endswith("bpreshuffle")
        assert not [one for one in outcome.diagnostics if one.severity is Severity.ERROR]


def test_k1_is_what_a_thread_copies_at_once() -> None:
    listed = read_list(of("bf16_batched"))
    (file,) = plan_import(listed, "t", "Default", lambda fields: True, 1, 1000).files  # noqa: ARG005
    assert "AK1 = 16\nBK1 = 16" in file.text
    (file, _) = plan_import(read_list(of("a8w8_rowwise")), "t", "Default", lambda fields: True, 1, 9).files  # noqa: ARG005
    assert file.instances == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 +", "it is not Python"),
        ("kernels_list = {}", "it has no class"),
        (ROWWISE, "its instances are called `LIST`, and templates are there for `a8w8_rowwise`"),
        (of("a8w8_rowwise").replace("kernels_list = {", "kernels_list = {9: 1, "), "is not a call of `kernelInstance`"),
        (of("a8w8_rowwise").replace("[8, 8, 1]", "[n, 8, 1]"), "has a value that is not written out"),
        (of("a8w8_rowwise").replace("    WAVE_MAP_M: int\n", ""), "is not a call of"),
        (of("a8w8_rowwise").partition("kernels_list")[0] + "kernels_list = {}", "`kernels_list` is empty"),
    ],
)
def test_what_is_no_list_is_said(text: str, words: str) -> None:
    with pytest.raises(ListError, match=words.replace("(", r"\(")):
        read_list(text)


def test_an_instance_that_no_kernel_file_says_is_left_out(root: Path, capsys: Capture) -> None:
    (root / "list.py").write_text(of("a8w8_rowwise").replace("[4, 4, 1]", "[4, 2, 1]"))
    assert main(["import", "aiter", "list.py"]) == 0
    assert "left out 2 instances: D tensors are read in other widths" in capsys.readouterr().out
    assert main(["import", "aiter", "list.py", "--filter", "MPerBlok=1", "--force"]) == 2
    assert "did you mean `MPerBlock`?" in capsys.readouterr().err
    assert main(["import", "aiter", "gone.py"]) == 2
    assert "cannot read gone.py" in capsys.readouterr().err
    assert main(["import", "aiter", "list.py", "--template", "ck/nope.hip.j2"]) == 2
    assert "there is no template" in capsys.readouterr().err
