"""Element types, layouts, sizes and strides of tensors.

The ABI types are those of PyTorch Inductor's `DTYPE_TO_ROCM_TYPE`: 16-bit floats travel as `uint16_t*`, 8-bit floats
as `uint8_t*`.

Sizes and strides are written in terms of a kernel's size arguments, such as `M`, `LDA` or `2 * N`. They are C
expressions of integers, names and `+ - * / % ( )`, so that a template can print them as they are; here they are checked
and evaluated, with C's division.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import lru_cache

from ckwatch.model.arithmetic import OPERATORS
from ckwatch.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Dtype:
    """`mantissa_bits` counts stored bits, without the hidden one; 0 for integers, whose least and greatest value are
    `limits`. `packed` elements that lie behind one another in memory share `size_bytes`, the first in the lowest bits.
    """

    name: str
    ck_name: str
    abi_type: str
    size_bytes: int
    mantissa_bits: int
    packed: int = 1
    limits: tuple[int, int] | None = None

    def bytes_for(self, elements: int) -> int:
        """The bytes of so many elements; what they have in part is a whole one."""
        return -(-elements // self.packed) * self.size_bytes


def _integer(bits: int, *, signed: bool) -> Dtype:
    word, name = ("I", f"int{bits}_t") if signed else ("U", f"uint{bits}_t")
    limits = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return Dtype(f"{word.lower()}{bits}", f"{word}{bits}", name, bits // 8, 0, limits=limits)


DTYPES: dict[str, Dtype] = {
    dtype.name: dtype
    for dtype in (
        Dtype("f16", "F16", "uint16_t", 2, 10),
        Dtype("bf16", "BF16", "uint16_t", 2, 7),
        Dtype("f32", "F32", "float", 4, 23),
        Dtype("f64", "F64", "double", 8, 52),
        Dtype("f8", "F8", "uint8_t", 1, 3),
        Dtype("bf8", "BF8", "uint8_t", 1, 2),
        Dtype("f4", "F4", "uint8_t", 1, 1, packed=2),
        *(_integer(bits, signed=True) for bits in (8, 16, 32, 64)),
        *(_integer(bits, signed=False) for bits in (8, 16, 32, 64)),
        Dtype("bool", "bool", "bool", 1, 0, limits=(0, 1)),
        Dtype("e8m0", "E8M0", "uint8_t", 1, 0),
    )
}
"""`f8` is E4M3 and `bf8` E5M2: the fnuz forms on gfx90a and gfx942, the OCP forms on gfx950. `f4` is E2M1, which
has no NaN. `e8m0` is a power of two, 2^(bits - 127), or NaN (255): OCP's scale of a microscaled block."""

LAYOUTS = {"row": "Row", "col": "Col"}
"""`row`: the last index is contiguous; `col`: the one before it is."""


EXPRESSION_LENGTH_LIMIT = 600
INT32_MAX = 2**31 - 1


@lru_cache(maxsize=1024)
def parse_size(text: str) -> ast.expr | None:
    """The syntax tree of a size, which is not to be changed, or None if `text` is none."""
    if len(text) > EXPRESSION_LENGTH_LIMIT or "\n" in text:
        return None
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree if _is_size(tree) else None


def _is_size(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=value):
            return type(value) is int
        case ast.Name():
            return True
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.Mod(), right=right):
            return _is_size(left) and _is_size(right)
    return False


def names_in(text: str) -> list[str]:
    """The sizes that an expression mentions, in order. Raises nothing; no expression mentions none."""
    tree = parse_size(text)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Name)] if tree is not None else []
    return [node.id for node in sorted(found, key=lambda node: node.col_offset)]


def evaluate_size(text: str, sizes: Mapping[str, int]) -> int:
    """The value of a size. Raises ValueError where `text` is none, and for unknown names and division by zero."""
    tree = parse_size(text)
    if tree is None:
        raise ValueError(f"`{text}` is not a size")
    return _value(tree, sizes)


def _value(node: ast.expr, sizes: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            if name not in sizes:
                raise ValueError(f"`{name}` has no value")
            return sizes[name]
        case ast.BinOp(left=left, op=operator, right=right):
            return OPERATORS[type(operator)](_value(left, sizes), _value(right, sizes))
    raise ValueError("no size")


def contiguous_strides(sizes: Sequence[str], layout: str) -> tuple[str, ...]:
    """Strides of a tensor without gaps; for `col` the last two dimensions change places."""
    order = list(range(len(sizes)))
    if layout == "col" and len(sizes) >= 2:
        order[-1], order[-2] = order[-2], order[-1]
    strides = ["1"] * len(sizes)
    factors: list[str] = []
    for index in reversed(order):
        strides[index] = " * ".join(factors) or "1"
        factors.insert(0, sizes[index] if is_atom(sizes[index]) else f"({sizes[index]})")
    return tuple(strides)


def is_atom(text: str) -> bool:
    """Return True if a size needs no parentheses in a product."""
    return isinstance(parse_size(text), (ast.Constant, ast.Name))
