"""Modules that choose among instances: which one a call's sizes mean, and what happens where it refuses them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases.export_case import custom, exported_of, imported_autotuned, imported_file, tensor
from cases.gemm_case import GemmCase
from cases.gemm_rows import BLOCKED_SMALL
from ckwatch.exported.autotuned_text import AutotunedKernel, MeasuredShape, library_names
from ckwatch.exported.runtime.choosing import Measured, by_distance
from ckwatch.render.renderer import Renderer
from helpers.each_row import each_row
from helpers.gemm_build import TEMPLATES, compile_source, render


def gemm(m: int, n: int, k: int, **others: int) -> dict[str, float]:
    """Arguments of packed matrices."""
    return {"M": m, "N": n, "K": k, "LDA": k, "LDB": n, "kBatch": 1, **others}


MEASURED = (
    Measured("square", "big", gemm(1024, 1024, 1024)),
    Measured("decode", "thin", gemm(1, 4096, 4096)),
    Measured("strided", "wide", gemm(1024, 1024, 1024, LDA=2048)),
    Measured("small", "thin", gemm(16, 16, 16)),
    Measured("long", "split", gemm(16, 16, 4096, kBatch=8)),
    Measured("long, whole", "big", gemm(16, 16, 4096)),
)

CHOICES: dict[str, tuple[dict[str, float], str]] = {
    "measured": (gemm(1, 4096, 4096), "thin big split wide"),
    "the other line length": (gemm(1024, 1024, 1024, LDA=2048), "wide big thin split"),
    "a line length that was not measured": (gemm(1024, 1024, 1024, LDA=4096), "big wide thin split"),
    "runtime arguments of two": (gemm(16, 16, 4096, kBatch=8), "split big thin wide"),
    "runtime arguments of neither": (gemm(16, 16, 4096, kBatch=2), "split big thin wide"),
    "twice as many rows": (gemm(2, 4096, 4096), "thin big split wide"),
    # 3 * 2.36 to the square, 3 * 3.64 to the small one, from which it differs by less
    "by ratios, not by differences": (gemm(200, 200, 200), "big wide thin split"),
    "four times as small": (gemm(4, 4, 4), "thin big split wide"),
    "between two, the first": (gemm(128, 128, 128), "big wide thin split"),
    "nothing": (gemm(0, 4096, 4096), "thin big split wide"),
}


@each_row("what", CHOICES)
def test_the_nearest_measured_shape_is_first(what: str) -> None:
    arguments, expected = CHOICES[what]
    assert " ".join(by_distance(MEASURED, ("M", "N", "K"), arguments)) == expected


def test_without_sizes_to_compare_the_other_arguments_decide() -> None:
    assert by_distance(MEASURED, (), gemm(16, 16, 4096, kBatch=8))[0] == "split"


ADD = custom(
    {"x": tensor("x", "f32", ("M", "N"), ("LD", "1"))},
    {"y": tensor("y", "f32", ("M", "N"), ("N", "1"))},
    ("M", "N", "LD"),
    {"by": "float"},
)
SOURCE = """
#include <cstddef>
#include <cstdint>
extern "C" int SYMBOL(const float* x, float* y, int32_t M, int32_t N, int32_t LD, float by,
                      size_t* workspace_size, uint8_t* workspace, void* stream)
{
    (void)stream;
    if (M > ROWS) return -23;
    if (workspace_size != nullptr) { *workspace_size = BYTES; return 0; }
    if (reinterpret_cast<uintptr_t>(x) % ALIGNMENT) return -23;
    for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) y[m * N + n] = x[m * LD + n] + by + NUMBER;
    for (int byte = 0; byte < BYTES; ++byte) workspace[byte] = 0;
    return 0;
}
"""
INSTANCES: dict[str, dict[str, int]] = {
    "short": {"ROWS": 8, "BYTES": 100, "ALIGNMENT": 4, "NUMBER": 1000},
    "aligned": {"ROWS": 64, "BYTES": 0, "ALIGNMENT": 64, "NUMBER": 2000},
    "any": {"ROWS": 512, "BYTES": 7, "ALIGNMENT": 4, "NUMBER": 3000},
}
"""How many rows each takes, its workspace, what its x is aligned to, and what it adds to be told apart."""


def shape(name: str, instance: str, arguments: dict[str, float]) -> MeasuredShape:
    """A shape that took 12.5 µs."""
    return MeasuredShape(
        shape=name, instance=instance, arguments=arguments, median_us=12.5, device="cpu, a processor", taken_at=1e9
    )


def autotuned(units: dict[str, Any], shapes: Sequence[MeasuredShape], libraries: dict[str, bytes], folder: Path) -> Any:
    """The module of these units, imported."""
    names = library_names("tuned", list(units))
    named = {name: replace(unit, unit=f"{unit.kernel}/{name}@host", name=names[name]) for name, unit in units.items()}
    return imported_autotuned(AutotunedKernel(name="tuned", units=named, shapes=shapes), libraries, folder)


@pytest.fixture(scope="module")
def add(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A module of `INSTANCES`, each nearest to shapes of its own."""
    folder = tmp_path_factory.mktemp("autotuned")
    units, libraries = {}, {}
    for number, (name, values) in enumerate(INSTANCES.items()):
        symbol = f"add_{number}"
        text = SOURCE.replace("SYMBOL", symbol)
        (folder / "unit.cpp").write_text(text)
        flags = [f"-D{key}={value}" for key, value in values.items()]
        compile_source(compiler, folder / "unit.cpp", folder / "unit.so", ["-fPIC", "-shared", *flags])
        units[name] = exported_of(ADD, "cpp", text, symbol, values, kernel="add")
        libraries[name] = (folder / "unit.so").read_bytes()
    shapes = [
        shape("4", "short", {"M": 4, "N": 4, "LD": 4, "by": 0.5}),
        shape("32", "aligned", {"M": 32, "N": 32, "LD": 32, "by": 0.5}),
        shape("1024", "any", {"M": 256, "N": 256, "LD": 256, "by": 0.5}),
    ]
    return autotuned(units, shapes, libraries, folder / "lib")


def ones(rows: int, columns: int, offset: int = 0) -> Any:
    """An array of f32 that begins `offset` elements after an address that is a multiple of 64."""
    memory = np.ones(rows * columns + offset + 16, np.float32)
    first = -(memory.ctypes.data // 4) % 16 + offset
    return memory[first : first + rows * columns].reshape(rows, columns)


CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "measured": (lambda: ones(4, 4), "short"),
    "measured, another": (lambda: ones(32, 32), "aligned"),
    "not measured": (lambda: ones(40, 30), "aligned"),
    "refused by the nearest": (lambda: ones(9, 4), "aligned"),
    "refused by two": (lambda: ones(65, 4), "any"),
    "refused for its address": (lambda: ones(32, 32, offset=1), "short or any"),
}


@pytest.mark.parametrize("what", CALLS)
def test_calls(what: str, add: Any) -> None:
    make, expected = CALLS[what]
    x = make()
    rows, columns = x.shape
    instance = next(name for name in reversed(INSTANCES) if name in expected)
    for _ in range(2):
        y = add.add(x, by=0.25)
        np.testing.assert_array_equal(y, np.full((rows, columns), 1.25 + INSTANCES[instance]["NUMBER"]))
        if "address" not in what:
            assert add.workspace_size(M=rows, N=columns, by=0.25) == INSTANCES[instance]["BYTES"]


def test_a_refusal_of_an_address_is_none_of_the_sizes(add: Any) -> None:
    for offset, instance in ((3, "any"), (0, "aligned"), (3, "any")):
        assert add.add(ones(32, 16, offset), by=0.0)[0, 0] == 1 + INSTANCES[instance]["NUMBER"]


def test_all_refuse(add: Any) -> None:
    for _ in range(2):
        with pytest.raises(
            add.UnsupportedError, match=r"add/any@host does not support M=600.*nor does any other instance"
        ):
            add.add(ones(600, 100), by=0.0)
        with pytest.raises(add.UnsupportedError, match="nor does any"):
            add.workspace_size(M=600, N=100, by=0.0)


def test_the_choice_without_a_call(add: Any) -> None:
    assert add.instances_for(M=32, N=64, by=0.5) == ("aligned", "any", "short")
    assert add.instances_for(M=600, N=64, by=0.5) == ("any", "aligned", "short")
    assert {name: f"add/{name}@host" for name in INSTANCES} == add.UNITS
    with pytest.raises(ValueError, match="M is -1"):
        add.instances_for(M=-1, N=32, by=0.5)


def test_arguments_are_checked_as_of_one_unit(add: Any) -> None:
    with pytest.raises(TypeError, match="x has the dtype float64"):
        add.add(ones(4, 4).astype(np.float64), by=0.0)
    assert add.add(ones(0, 4), by=0.0).shape == (0, 4)


def test_a_missing_shared_object(add: Any, tmp_path: Path) -> None:
    module = Path(add.__file__)
    (tmp_path / module.name).write_bytes(module.read_bytes())
    alone = imported_file("tuned", tmp_path / module.name)
    with pytest.raises(alone.LibraryError, match=r"tuned_short\.kernel\.so is missing"):
        alone.load()
    add.load()


def test_gemms_of_two_tiles(compiler: str, tmp_path: Path) -> None:
    """Right results whichever instance is chosen; a refusal of all."""
    case = GemmCase("f32", "f32", "f32", "row row row", bias="row", bias_dtype="f32", activation="relu")
    renderer = Renderer((TEMPLATES,))
    units, libraries = {}, {}
    for name, parameters in {
        "24x32": BLOCKED_SMALL,
        "12x64": {**BLOCKED_SMALL, "MPerBlock": 12, "NPerBlock": 64},
    }.items():
        rendered = render(renderer, case.unit("cpp/gemm_blocked.cpp.j2", parameters))
        (tmp_path / "unit.cpp").write_text(rendered.text)
        compile_source(compiler, tmp_path / "unit.cpp", tmp_path / "unit.so", ["-fPIC", "-shared", "-pthread"])
        units[name] = exported_of(case.operation(), "cpp", rendered.text, rendered.symbol, parameters)
        libraries[name] = (tmp_path / "unit.so").read_bytes()
    shapes = [shape("a", "24x32", gemm(48, 64, 32, LDC=64)), shape("b", "12x64", gemm(4, 256, 32, LDC=256))]
    module = autotuned(units, shapes, libraries, tmp_path / "lib")
    rng = np.random.default_rng(1)
    for (m, n, k), first in {(48, 64, 32): "24x32", (4, 256, 32): "12x64", (5, 301, 17): "12x64"}.items():
        x, w, bias = (rng.uniform(-1, 1, size).astype(np.float32) for size in ((m, k), (k, n), (n,)))
        np.testing.assert_allclose(module.gemm(x, w, bias), np.maximum(x @ w + bias, 0), rtol=1e-5, atol=1e-5)
        assert module.instances_for(M=m, N=n, K=k)[0] == first
    with pytest.raises(module.UnsupportedError):
        module.gemm(x, w, bias, kBatch=0)
