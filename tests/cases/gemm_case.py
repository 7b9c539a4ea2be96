"""GEMM operations for the tests of the templates: their description, their inputs, and a reference in numpy.

The reference and the element codecs are written from the definitions of the formats, independently of the C++ in
`ckwatch_templates/common`.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ckwatch.model.contractions import usual_steps
from ckwatch.model.kernels import Instance, Kernel, Operation, ParameterValue, Shape, Tensor, Unit
from ckwatch.model.tensors import DTYPES
from ckwatch.model.text import span
from ckwatch.workspace.operations.epilogue import Steps
from ckwatch.workspace.operations.gemm import gemm_operation

Floats = npt.NDArray[np.float64]
Storage = npt.NDArray[Any]

STORAGE = {
    "f16": np.uint16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64,
    "f8": np.uint8, "bf8": np.uint8, "i8": np.int8, "i32": np.int32,
}  # fmt: skip
POISON = {"f16": 0xFFFF, "bf16": 0xFFFF, "f32": np.nan, "f64": np.nan, "f8": 0xFF, "bf8": 0xFF, "i8": -99, "i32": -99}
FNUZ_ARCHS = ("gfx90a", "gfx942")

ACTIVATIONS: Mapping[str, Callable[[Floats], Floats]] = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0.0),
    "gelu": lambda x: 0.5 * x * (1.0 + np.vectorize(math.erf)(x / np.sqrt(2.0))),
    "gelu_tanh": lambda x: 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1.0 + np.exp(-x)),
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "tanh": np.tanh,
}


@lru_cache
def eight_bit_values(dtype: str, fnuz: bool) -> Floats:
    """The value of each of the 256 codes; NaN where a code is none (or an infinity, which no input uses)."""
    mantissa_bits = DTYPES[dtype].mantissa_bits
    bias = (7 if dtype == "f8" else 15) + fnuz
    values = np.empty(256)
    for code in range(256):
        exponent, mantissa = (code & 0x7F) >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
        fraction = mantissa / 2**mantissa_bits
        magnitude = fraction * 2.0 ** (1 - bias) if exponent == 0 else (1 + fraction) * 2.0 ** (exponent - bias)
        values[code] = -magnitude if code & 0x80 else magnitude
        special = code == 0x80 if fnuz else (code & 0x7F) >= (0x7F if dtype == "f8" else 0x7C)
        if special:
            values[code] = np.nan
    return values


def decode(stored: Storage, dtype: str, fnuz: bool) -> Floats:
    """The exact values of stored elements."""
    if dtype == "f16":
        return stored.view(np.float16).astype(np.float64)
    if dtype == "bf16":
        return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if dtype in ("f8", "bf8"):
        return eight_bit_values(dtype, fnuz)[stored]
    if dtype == "f4":
        magnitudes = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
        return np.array([*magnitudes, *(-value for value in magnitudes)])[stored]
    if dtype == "e8m0":
        return np.array([2.0 ** (code - 127) for code in range(255)] + [np.nan])[stored]
    return stored.astype(np.float64)


def random_elements(rng: np.random.Generator, count: int, dtype: str, fnuz: bool) -> Storage:
    """`count` stored elements with values of about -1 to 1 (integers: -5 to 5)."""
    if dtype in ("i8", "i32"):
        return rng.integers(-5, 6, count).astype(STORAGE[dtype])
    values = rng.uniform(-1.0, 1.0, count)
    if dtype == "f16":
        return values.astype(np.float16).view(np.uint16)
    if dtype == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if dtype in ("f8", "bf8"):
        table = eight_bit_values(dtype, fnuz)
        codes = np.flatnonzero(np.abs(table) <= 1.0)
        return rng.choice(codes, count).astype(np.uint8)
    return values.astype(STORAGE[dtype])


@dataclass(frozen=True)
class GemmCase:
    """One operation. `bias` is None, `row`, `col` (vectors), `full row` or `full col`; scales `tensor` or `row`."""

    a: str = "f16"
    b: str = "f16"
    c: str = "f16"
    layouts: str = "row col row"
    accumulator: str = "f32"
    bias: str | None = None
    bias_dtype: str = "f16"
    scale_a: str | None = None
    scale_b: str | None = None
    scale_dtype: str = "f32"
    alpha: float = 1.0
    beta: float = 1.0
    activation: str = "none"
    input_reorder: tuple[int, ...] | None = None
    same_buffer: bool = False
    arch: str = "gfx942"

    @property
    def fnuz(self) -> bool:
        """True if 8-bit floats are the fnuz forms."""
        return self.arch in FNUZ_ARCHS

    def operation(self) -> Operation:
        """As the kernel file's loader makes it."""
        a_layout, b_layout, c_layout = self.layouts.split()
        inputs: list[tuple[str, Tensor | None]] = [
            ("X", _matrix("X", self.a, a_layout, ("M", "K"), "LDA", "X")),
            ("W", _matrix("W", self.b, b_layout, ("K", "N"), "LDB", "X" if self.same_buffer else "W")),
            ("inv_scale_x", self._scale("inv_scale_x", self.scale_a, "M")),
            ("inv_scale_w", self._scale("inv_scale_w", self.scale_b, "N")),
            ("Bias", self._bias()),
        ]
        settings: dict[str, ParameterValue] = {"alpha": self.alpha, "beta": self.beta, "activation": self.activation}
        if self.input_reorder is not None:
            settings["input_reorder"] = self.input_reorder
        y = _matrix("Y", self.c, c_layout, ("M", "N"), "LDC", "Y")
        steps: Steps = usual_steps(
            scales=tuple(name for name, tensor in inputs[2:4] if tensor is not None),
            alpha=self.alpha,
            bias=None if self.bias is None else "Bias",
            beta=self.beta,
            activation=self.activation,
        )
        return gemm_operation({**dict(inputs), "Y": y}, self.accumulator, settings, steps)

    def unit(self, template: str, parameters: Mapping[str, ParameterValue], shapes: tuple[Shape, ...] = ()) -> Unit:
        """The unit of this operation with one instance."""
        nowhere = span("/test.kernel.toml", 0, 0, 0, 0)
        instance = Instance("instance", parameters, nowhere, {})
        kernel = Kernel(
            "kernel", "/test.kernel.toml", template, nowhere, self.operation(), {}, shapes, (instance,), (self.arch,)
        )
        return Unit(kernel, instance, self.arch)

    def _scale(self, name: str, per: str | None, size: str) -> Tensor | None:
        if per is None:
            return None
        sizes = (size,) if per == "row" else ("1",)
        return Tensor(name, self.scale_dtype, "row", sizes, ("1",), name)

    def _bias(self) -> Tensor | None:
        if self.bias is None:
            return None
        layout = self.bias.split()[-1]
        if self.bias.startswith("full"):
            return _matrix("Bias", self.bias_dtype, layout, ("M", "N"), "LDD", "Bias")
        return Tensor("Bias", self.bias_dtype, layout, ("N" if layout == "row" else "M",), ("1",), "Bias")


def _matrix(name: str, dtype: str, layout: str, sizes: tuple[str, str], leading: str, buffer: str) -> Tensor:
    return Tensor(name, dtype, layout, sizes, (leading, "1") if layout == "row" else ("1", leading), buffer)


@dataclass(frozen=True)
class Size:
    """Sizes of one run. `padding` is added to each leading dimension; `ldd_zero` repeats a full bias's first line."""

    M: int
    N: int
    K: int
    kBatch: int = 1  # noqa: N815  # the ABI's name
    padding: int = 0
    ldd_zero: bool = False


@dataclass
class GemmRun:
    """Inputs, output and reference of one run of a case."""

    case: GemmCase
    size: Size
    seed: int = 0

    def __post_init__(self) -> None:
        case, size = self.case, self.size
        rng = np.random.default_rng([self.seed, size.M, size.N, size.K])
        a_layout, b_layout, c_layout = case.layouts.split()
        leading = {
            "LDA": (size.K if a_layout == "row" else size.M) + size.padding,
            "LDB": (size.N if b_layout == "row" else size.K) + size.padding,
            "LDC": (size.N if c_layout == "row" else size.M) + size.padding,
            "LDD": 0,
        }
        self.buffers: dict[str, Storage] = {}
        if case.same_buffer:
            x_extent = (size.M if a_layout == "row" else size.K) * leading["LDA"]
            w_extent = (size.K if b_layout == "row" else size.N) * leading["LDB"]
            self.buffers["X"] = random_elements(rng, max(x_extent, w_extent), case.a, case.fnuz)
            self.x = decode(
                _view(self.buffers["X"], a_layout, size.M, size.K, leading["LDA"]).copy(), case.a, case.fnuz
            )
            self.w = decode(
                _view(self.buffers["X"], b_layout, size.K, size.N, leading["LDB"]).copy(), case.b, case.fnuz
            )
        else:
            self.x = self._matrix(rng, "X", case.a, a_layout, size.M, size.K, leading["LDA"])
            self.w = self._matrix(rng, "W", case.b, b_layout, size.K, size.N, leading["LDB"])
        self.scales = np.ones((size.M, size.N))
        if case.scale_a is not None:
            self.scales = self.scales * self._vector(rng, "inv_scale_x", case.scale_a, size.M)[:, None]
        if case.scale_b is not None:
            self.scales = self.scales * self._vector(rng, "inv_scale_w", case.scale_b, size.N)[None, :]
        self.bias = np.zeros((size.M, size.N))
        if case.bias is not None:
            leading["LDD"] = self._fill_bias(rng)
        rows = size.M if c_layout == "row" else size.N
        self.y_buffer = np.full(rows * leading["LDC"] + 8, POISON[case.c], STORAGE[case.c])
        self.leading = leading
        self.arguments = {"M": size.M, "N": size.N, "K": size.K, "kBatch": size.kBatch} | leading

    def _matrix(self, rng: np.random.Generator, name: str, dtype: str, layout: str, rows: int, columns: int, leading: int
    ) -> Floats:  # fmt: skip
        buffer = np.full((rows if layout == "row" else columns) * leading, POISON[dtype], STORAGE[dtype])
        view = _view(buffer, layout, rows, columns, leading)
        view[...] = random_elements(rng, rows * columns, dtype, self.case.fnuz).reshape(rows, columns)
        self.buffers[name] = buffer
        return decode(np.ascontiguousarray(view), dtype, self.case.fnuz)

    def _vector(self, rng: np.random.Generator, name: str, per: str, count: int) -> Floats:
        values = rng.uniform(0.5, 2.0, count if per == "row" else 1).astype(np.float32)
        self.buffers[name] = values
        return np.broadcast_to(values.astype(np.float64), (count,))

    def _fill_bias(self, rng: np.random.Generator) -> int:
        case, size = self.case, self.size
        assert case.bias is not None
        layout = case.bias.split()[-1]
        minor, major = (size.N, size.M) if layout == "row" else (size.M, size.N)
        if case.bias.startswith("full") and not size.ldd_zero:
            leading = minor + size.padding
            self.bias = self._matrix(rng, "Bias", case.bias_dtype, layout, size.M, size.N, leading)
            return leading
        self.buffers["Bias"] = random_elements(rng, minor, case.bias_dtype, case.fnuz)
        line = decode(self.buffers["Bias"], case.bias_dtype, case.fnuz)
        self.bias = (
            np.broadcast_to(line, (major, minor)) if layout == "row" else np.broadcast_to(line, (major, minor)).T
        )
        return 0

    def y(self) -> Floats:
        """The values that the kernel wrote."""
        layout = self.case.layouts.split()[2]
        view = _view(self.y_buffer, layout, self.size.M, self.size.N, self.leading["LDC"])
        return decode(np.ascontiguousarray(view), self.case.c, self.case.fnuz)

    def check(self) -> None:
        """Compare Y with the reference by CK's tolerance, and see that nothing was written beside it."""
        case, size = self.case, self.size
        before = case.alpha * self.scales * (self.x @ self.w) + case.beta * self.bias
        expected = ACTIVATIONS[case.activation](before)
        if case.c in ("f8", "bf8"):
            largest = np.nanmax(eight_bit_values(case.c, case.fnuz))
            expected = np.clip(expected, -largest, largest)
        if case.c in ("i8", "i32"):
            limits = np.iinfo(np.int8 if case.c == "i8" else np.int32)
            expected = np.clip(np.rint(expected), limits.min, limits.max)
        actual = self.y()
        relative = tolerance(case, size.K + 16)  # and the epilogue's roundings
        largest = max(np.abs(before).max(), np.abs(expected).max())
        error = np.abs(actual - expected) - relative * (np.abs(expected) + largest)
        bad = np.argwhere(~(error <= 0))
        assert bad.size == 0, (
            f"{case} {size}: {len(bad)} of {expected.size} wrong, first at {bad[0]}: "
            f"{actual[tuple(bad[0])]} instead of {expected[tuple(bad[0])]} (rtol {relative:.2g}, largest {largest:.3g})"
        )
        layout = case.layouts.split()[2]
        touched = np.zeros(self.y_buffer.size, bool)
        _view(touched, layout, size.M, size.N, self.leading["LDC"])[...] = True
        beside = self.y_buffer[~touched]
        untouched = np.isnan(beside) if case.c in ("f32", "f64") else beside == POISON[case.c]
        assert untouched.all(), f"{case} {size}: wrote beside Y"


def _view(buffer: Storage, layout: str, rows: int, columns: int, leading: int) -> Storage:
    strides = (leading, 1) if layout == "row" else (1, leading)
    size = buffer.dtype.itemsize
    return np.lib.stride_tricks.as_strided(buffer, (rows, columns), (strides[0] * size, strides[1] * size))


def tolerance(case: GemmCase, accumulations: int) -> float:
    """CK's rule: max(2^-mant_acc · 0.5 · n_acc, max(2^-mant_compute, 2^-mant_out) · 0.5); integers are exact."""

    def half_ulp(dtype: str) -> float:
        bits = DTYPES[dtype].mantissa_bits
        return 0.5 * 2.0**-bits if bits else 0.0

    compute = min((case.a, case.b), key=lambda dtype: DTYPES[dtype].mantissa_bits)
    return max(half_ulp(case.accumulator) * accumulations, half_ulp(compute), half_ulp(case.c))


class GemmLibrary:
    """A compiled unit, called by the documented ABI."""

    def __init__(self, path: Path, symbol: str, case: GemmCase) -> None:
        self._function = getattr(ctypes.CDLL(str(path)), symbol)
        self._function.restype = ctypes.c_int
        self._case = case

    def call(
        self, run: GemmRun, workspace: int | None, workspace_size: ctypes.c_size_t | None, *, null: tuple[str, ...] = ()
    ) -> int:
        """One call; with `workspace_size` it is the workspace query, which comes with null tensors."""
        order = self._case.input_reorder or (0, 1, 2, 3, 4)
        names = ["X", "W", "inv_scale_x", "inv_scale_w", "Bias"]
        pointers = [
            None if workspace_size is not None or name in null else run.buffers[name].ctypes.data
            for name in (names[index] for index in order)
            if name in run.buffers
        ]
        pointers.append(None if workspace_size is not None or "Y" in null else run.y_buffer.ctypes.data)
        sizes = [run.arguments[name] for name in ("M", "N", "K", "LDA", "LDB", "LDC", "LDD", "kBatch")]
        arguments = [
            *map(ctypes.c_void_p, pointers),
            *map(ctypes.c_int32, sizes),
            None if workspace_size is None else ctypes.byref(workspace_size),
            ctypes.c_void_p(workspace),
            ctypes.c_void_p(None),
        ]
        return int(self._function(*arguments))

    def check(self, run: GemmRun) -> None:
        """Query the workspace, run, compare, and see that the workspace was not overrun."""
        size = ctypes.c_size_t(12345)
        assert self.call(run, None, size) == 0
        accumulator_bytes = DTYPES[self._case.accumulator].size_bytes
        batch = run.arguments["kBatch"]
        assert size.value == (0 if batch == 1 else batch * run.size.M * run.size.N * accumulator_bytes)
        workspace = np.full(size.value + 64, 0xFF, np.uint8)
        assert self.call(run, workspace.ctypes.data if size.value else None, None) == 0
        assert (workspace[size.value :] == 0xFF).all(), "wrote beyond the workspace"
        run.check()
