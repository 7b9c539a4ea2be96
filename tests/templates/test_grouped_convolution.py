"""`ck/grouped_convolution.hip.j2`: its text in every layout, and under the real compiler what it computes and refuses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ckwatch.checks.rules.checker import check_instance
from ckwatch.checks.rules.grouped_conv_fwd_xdl_cshuffle_v3 import CDE_CLUSTER, CDE_VECTOR, OPERATION
from ckwatch.checks.rules.instances import rendered_instances, unchecked_operations
from ckwatch.cli import main
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.model.kernels import ParameterValue, Unit
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.operations.grouped_convolution import (
    DIMENSIONS,
    FILTER_LAYOUTS,
    INPUT_LAYOUTS,
    OUTPUT_LAYOUTS,
    size_arguments,
)
from ckwatch.workspace.toml import toml_value
from helpers.gemm_build import render
from helpers.workspaces import workspace

TRANSFER: dict[str, ParameterValue] = {
    "ThreadClusterArrangeOrder": (1, 0, 2), "SrcAccessOrder": (1, 0, 2), "SrcVectorDim": 2, "SrcScalarPerVector": 8,
}  # fmt: skip
INSTANCE: dict[str, ParameterValue] = {
    "ConvForwardSpecialization": "Default", "GemmSpec": "MNKPadding", "BlockSize": 64, "MPerBlock": 32,
    "NPerBlock": 32, "KPerBlock": 32, "AK1": 8, "BK1": 8, "MPerXDL": 32, "NPerXDL": 32, "MXdlPerWave": 1,
    "NXdlPerWave": 1, "ABlockTransferThreadClusterLengths_AK0_M_AK1": (4, 16, 1),
    **{f"ABlockTransfer{name}": value for name, value in TRANSFER.items()},
    "ABlockTransferDstScalarPerVector_AK1": 8, "ABlockLdsExtraM": False,
    "BBlockTransferThreadClusterLengths_BK0_N_BK1": (4, 16, 1),
    **{f"BBlockTransfer{name}": value for name, value in TRANSFER.items()},
    "BBlockTransferDstScalarPerVector_BK1": 8, "BBlockLdsExtraN": False,
    "CShuffleMXdlPerWavePerShuffle": 1, "CShuffleNXdlPerWavePerShuffle": 1, CDE_CLUSTER: (1, 16, 1, 4), CDE_VECTOR: 8,
    "BlkGemmPipeSched": "Intrawave", "BlkGemmPipelineVer": "v1",
}  # fmt: skip


def kernel_file(operation: str, changed: dict[str, ParameterValue], shapes: str = "") -> str:
    values = "".join(f"{name} = {toml_value(value)}\n" for name, value in (INSTANCE | changed).items())
    head = 'template = "ck/grouped_convolution.hip.j2"\n\n[operation]\nkind = "grouped_convolution"\n'
    return f'{head}{operation}\n{shapes}\n[[instance]]\nname = "one"\n{values}'


def tensors(layouts: tuple[str, str, str], dtype: str = "f16") -> str:
    each = zip("abc", layouts, strict=True)
    return "".join(f'{key} = {{ dtype = "{dtype}", layout = "{layout}" }}\n' for key, layout in each)


def unit(root: Path, operation: str, changed: dict[str, ParameterValue], arch: str = "gfx942") -> Unit:
    found = workspace(root, {"k.kernel.toml": kernel_file(operation, changed)})
    assert found.diagnostics == ()
    return Unit(found.kernels[0], found.kernels[0].instances[0], arch)


@pytest.mark.parametrize("dimensions", DIMENSIONS)
@pytest.mark.parametrize("layout", [0, 1, 2])
@pytest.mark.parametrize("more", ["", 'bias = { dtype = "f32" }\nactivation = "relu"\n'])
def test_text(dimensions: int, layout: int, more: str, renderer: Renderer, tmp_path: Path) -> None:
    layouts = (
        INPUT_LAYOUTS[dimensions][layout], FILTER_LAYOUTS[dimensions][layout], OUTPUT_LAYOUTS[dimensions][layout]
    )  # fmt: skip
    operation = f"dimensions = {dimensions}\n{tensors(layouts)}{more}"
    changed: dict[str, ParameterValue] = {"ConvForwardSpecialization": "Filter1x1Stride1Pad0"}
    changed |= {"ABlockTransferSrcScalarPerVector": 1, CDE_VECTOR: 1}
    text = render(renderer, unit(tmp_path, operation, changed)).text
    declared = re.search(r"PT_EXPORT\n#endif\nint \w+\(([^)]*)\)", text)
    assert declared is not None
    assert tuple(re.findall(r"int32_t (\w+)", declared[1])) == size_arguments(dimensions)
    assert [f"layouts::{name}," in text for name in layouts] == [True] * 3
    assert ("transpose_inputs" in text) == (layout == 2 and dimensions > 1)
    (found,) = rendered_instances(text)
    assert tuple(found.arguments) == tuple(OPERATION.parameters)
    assert unchecked_operations(text) == []
    assert check_instance(OPERATION.name, found.arguments, "gfx942", source=text) == ()


@pytest.mark.parametrize(
    ("layouts", "changed", "arch", "asserted"),
    [
        (("NGCHW", "GKYXC", "NHWGK"), {}, "gfx942", "needs ABlockTransferSrcScalarPerVector = 1"),
        (("NHWGC", "GKYXC", "NGKHW"), {}, "gfx942", f"needs {CDE_VECTOR} = 1"),
        (("NGCHW", "GKYXC", "NGKHW"), {}, "gfx942", "NGCHW and NGKHW need a filter in GKCYX"),
        (("NHWGC", "GKYXC", "NHWGK"), {"DirectLoad": True}, "gfx942", "DirectLoad needs gfx950"),
    ],
)
def test_what_ck_would_compute_wrongly_is_asserted(
    layouts: tuple[str, str, str],
    changed: dict[str, ParameterValue],
    arch: str,
    asserted: str,
    renderer: Renderer,
    tmp_path: Path,
) -> None:
    text = render(renderer, unit(tmp_path, tensors(layouts), changed, arch)).text
    assert asserted in " ".join(re.findall(r"static_assert\((.*)\);", text))
    direct = render(renderer, unit(tmp_path, tensors(("NHWGC", "GKYXC", "NHWGK")), changed, "gfx950")).text
    assert asserted not in direct


SHAPES = """
[[shape]]
name = "groups"
GroupCount = 2
NBatch = 2
NOutChannels = 48
NInChannels = 16
FilterSize_0 = 3
FilterSize_1 = 2
InputSize_0 = 10
InputSize_1 = 12
ConvolutionStrides_1 = 2
Dilations_0 = 2
LeftPads_0 = 1
RightPads_0 = 1

[[shape]]
name = "five channels"
NBatch = 1
NOutChannels = 8
NInChannels = 5
FilterSize_0 = 1
FilterSize_1 = 1
InputSize_0 = 8
InputSize_1 = 8
"""


@pytest.mark.toolchain
@pytest.mark.timeout(1800)
def test_it_computes_and_refuses(toolchain: Toolchain, trusted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    biased = tensors(("NHWGC", "GKYXC", "NHWGK")) + 'bias = { dtype = "f32" }\nactivation = "relu"\nalpha = 0.5\n'
    files = {
        "ckwatch.toml": '[workspace]\narchs = ["gfx942"]\n',
        "last.kernel.toml": kernel_file(biased, {}, SHAPES),
        "first.kernel.toml": kernel_file(tensors(("NGCHW", "GKCYX", "NGKHW")), {}, SHAPES),
    }
    assert workspace(trusted, files).diagnostics == ()
    status = main(["verify", "-C", str(trusted), "--shape", "groups", "--shape", "five channels", "--details"])
    printed = capsys.readouterr().out
    assert (status, printed.count("verified (emulated gfx942)")) == (0, 2), printed
    assert printed.count("refused") >= 2, printed
