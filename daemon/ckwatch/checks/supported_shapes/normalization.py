"""Which shapes an instance of CK Tile's norms supports: what the templates refuse, and CK Tile's examples leave to
other instances."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from ckwatch.checks.supported_shapes.family import Parameters, Refusal, ShapeRules
from ckwatch.model.kernel_problem import KernelProblem
from ckwatch.model.tensors import DTYPES, INT32_MAX

_PARAMETERS = frozenset({"Repeat_N", "ThreadPerBlock_N", "Vector_N"})
_MATRICES = ("x", "residual", "y", "sum", "unquantized")
_DWORD = 4


def refusals(parameters: Parameters, problem: KernelProblem) -> Iterator[Refusal]:
    """Why an instance does not support a problem of kind `normalization`."""
    rows = problem.rows
    if rows is None or rows.reference != "normalization":
        return
    m, n = rows.view("x").sizes
    repeat, threads, vector = (_number(parameters, name) for name in ("Repeat_N", "ThreadPerBlock_N", "Vector_N"))
    block_m = _number(parameters, "Repeat_M") * _number(parameters, "ThreadPerBlock_M")
    block_n = repeat * threads * vector
    width = f"Repeat_N · ThreadPerBlock_N · Vector_N = {block_n}"
    if n % vector:
        yield Refusal(f"N = {n} is not a multiple of Vector_N = {vector}", f"Vector_N = {gcd(n, vector)}")
    if parameters.get("kTwoPass") is not True and n > block_n:
        yield Refusal(f"N = {n} is above {width}, and kTwoPass is false", f"Repeat_N = {-(-n // (threads * vector))}")
    if parameters.get("kPadN") is False and n % block_n:
        yield Refusal(f"N = {n} is not a multiple of {width}, and kPadN is false", "kPadN = true")
    for role, view in rows.tensors:
        if role not in _MATRICES:
            continue
        name, stride, size = view.buffer, view.strides[0], DTYPES[problem.buffer(view.buffer).dtype].size_bytes
        if (m + block_m) * stride + block_n > INT32_MAX // size:
            yield Refusal(f"{name} reaches beyond 2 GiB")
        if stride * size % min(_DWORD, size * vector):
            yield Refusal(f"the rows of {name} are not aligned for vectors")


def _number(parameters: Parameters, name: str) -> int:
    value = parameters.get(name, 1)
    return value if isinstance(value, int) and value > 0 else 1


NORMALIZATION = ShapeRules(
    describes=lambda parameters: parameters.keys() >= _PARAMETERS,
    refusals=refusals,
    splits_k=lambda _: False,
)
