"""Kernel files of kind `normalization` for tests."""

from __future__ import annotations

from pathlib import Path

from ckwatch.model.kernels import ParameterValue, Unit
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.toml import toml_value

PARAMETERS: dict[str, ParameterValue] = {
    "Repeat_N": 1, "ThreadPerBlock_M": 1, "ThreadPerBlock_N": 128, "Vector_N": 4
}  # fmt: skip
EVERYTHING = {
    "rms": 'residual = true\nquantize = { dtype = "i8", smooth = true, keep = true }\nstatistics = true\n',
    "layer": 'bias = true\nresidual = true\nquantize = { dtype = "f8", smooth = true }\nstatistics = true\n',
}


def kernel_file(norm: str, more: str = "", shape: str = "", **parameters: ParameterValue) -> str:
    """Its text, with an instance of `PARAMETERS` and `parameters`."""
    top = f'template = "ck_tile/{norm}norm.hip.j2"\n\n[operation]\nkind = "normalization"\nnorm = "{norm}"\n'
    values = {"name": "i", **PARAMETERS, **parameters}
    instance = "\n[[instance]]\n" + "".join(f"{name} = {toml_value(value)}\n" for name, value in values.items())
    return top + 'dtype = "f16"\n' + more + (f"\n[[shape]]\n{shape}\n" if shape else "") + instance


def unit_of(root: Path, norm: str, more: str = "", shape: str = "", /, **parameters: ParameterValue) -> Unit:
    """The unit of such a file, which has no problems."""
    (root / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx942"]\n')
    (root / "norm.kernel.toml").write_text(kernel_file(norm, more, shape, **parameters))
    found = load_workspace(root)
    assert found.diagnostics == ()
    (unit,) = found.units
    return unit
