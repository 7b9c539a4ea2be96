"""A workspace with instances of AITER's, and timings of these that nobody measured."""

from __future__ import annotations

from pathlib import Path

from ckwatch.checks.aiter_instances import read_name
from ckwatch.model.kernels import Kernel
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.toml import toml_value

NAME = "a8w8_rowwise_256x16x64x512_16x16_1x1_32x8x1_32x8x1_1x16x1x16_4x4x1_1x1_intrawave_v3"
OTHER = "a8w8_rowwise_256x128x128x128_32x32_2x2_8x32x1_8x32x1_1x32x1x8_8x8x1_1x1_intrawave_v3"
TABLE = f"""\
gfx,compute_units,batch,M,N,K,dtype,splitK_log2,instance,us
gfx950,256,1,128,1280,8192,int8,0,{NAME},15.1
gfx950,256,1,128,1280,8192,int8,1,{OTHER},17.5
gfx942,304,1,128,1280,8192,int8,0,{OTHER},21.25
gfx942,304,1,128,1280,8192,float8_e4m3fnuz,0,{OTHER},11.0
gfx942,304,1,64,1280,8192,int8,0,{OTHER},9.0
gfx942,304,1,64,1280,8192,int8,0,{OTHER},nan
"""


def kernel_text(dtype: str = "i8", scale: str = '{ dtype = "f32", per = "row" }', b_layout: str = "col") -> str:
    """A kernel file with `NAME` as the instance `theirs`, and one that nobody else has."""
    named = read_name(NAME)
    assert named is not None
    scales = f"scale_a = {scale}\nscale_b = {scale}\n" if scale else ""
    parameters = {**named.parameters, "GemmSpec": "MNKPadding"}
    instances = {"theirs": parameters, "own": parameters | {"KPerBlock": 256}}
    return (
        'template = "t.hip.j2"\n[operation]\nkind = "gemm"\n'
        f'a = {{ dtype = "{dtype}", layout = "row" }}\nb = {{ dtype = "{dtype}", layout = "{b_layout}" }}\n'
        f'c = {{ dtype = "bf16", layout = "row" }}\n{scales}'
        '[[shape]]\nname = "large"\nM = 128\nN = 1280\nK = 8192\n[[shape]]\nname = "small"\nM = 8\nN = 8\nK = 8\n'
        + "".join(
            f'[[instance]]\nname = "{name}"\n' + "".join(f"{key} = {toml_value(value)}\n" for key, value in one.items())
            for name, one in instances.items()
        )
    )


def kernel_in(folder: Path, text: str) -> Kernel:
    """The kernel `k` with this text, in a workspace of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx942", "gfx950"]\n')
    (folder / "templates").mkdir(exist_ok=True)
    (folder / "templates/t.hip.j2").write_text("int a;\n")
    (folder / "k.kernel.toml").write_text(text)
    (kernel,) = load_workspace(folder).kernels
    return kernel
