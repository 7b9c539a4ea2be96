"""The operations of `operations.h`, as kernel files, and the reference of each in Python."""

from __future__ import annotations

from pathlib import Path

_MATRIX = 'sizes = ["M", "N"]'
_OPERATIONS = {
    "relu": (("X", "f32", _MATRIX, ""), ("Y", "bf16", _MATRIX, "")),
    "sum": (("X", "f32", _MATRIX, ""), ("Y", "f32", 'sizes = ["M"]', 'reduction = "N"')),
    "softmax": (("X", "f32", _MATRIX, ""), ("Y", "f32", _MATRIX, "")),
    "clamp": (("X", "f32", _MATRIX, ""), ("Y", "f32", _MATRIX, "nan = true")),
    "add": (("X", "f32", _MATRIX, ""), ("Y", "f32", _MATRIX, "in_out = true")),
    "gemm": (
        ("X", "f16", 'sizes = ["M", "K"]', ""),
        ("W", "f16", 'sizes = ["K", "N"]', ""),
        ("Y", "f16", _MATRIX, 'reduction = "K"'),
    ),
}
_SHAPES = {"gemm": ((33, 48, 80), (20, 70, 33))}
REFERENCE = """\
import numpy as np


def relu(X):
    return np.maximum(2 * X, 0)


def sum(X):
    return X.sum(axis=1)


def softmax(X):
    values = np.exp(X - X.max(axis=1, keepdims=True))
    return values / values.sum(axis=1, keepdims=True)


def clamp(X):
    return np.clip(X, -1, 1)


def add(X, Y):
    return X + Y


def gemm(X, W):
    return X @ W
"""


def write_operations(root: Path) -> None:
    """Write a workspace with a kernel file for each operation."""
    for name, tensors in _OPERATIONS.items():
        sizes = ["M", "N", "K"] if name == "gemm" else ["M", "N"]
        text = f'template = "none.hip.j2"\n[operation]\nkind = "custom"\nsizes = {sizes}\n'
        text += f'reference = "reference.py:{name}"\n'
        for tensor, dtype, extents, more in tensors:
            group = "output" if tensor == "Y" else "input"
            text += f'[[operation.{group}]]\nname = "{tensor}"\ndtype = "{dtype}"\n{extents}\n{more}\n'
        for called, shape in zip(("timed", "large"), _SHAPES.get(name, ((64, 96), (130, 70))), strict=True):
            values = "\n".join(f"{size} = {value}" for size, value in zip(sizes, shape, strict=True))
            text += f'[[shape]]\nname = "{called}"\n{values}\n'
        (root / f"{name}.kernel.toml").write_text(f'{text}[[instance]]\nname = "one"\nBlockSize = 64\n')
    (root / "templates").mkdir(exist_ok=True)
    for name in ("ckwatch.toml", "templates/none.hip.j2"):
        (root / name).touch()
    (root / "reference.py").write_text(REFERENCE)
