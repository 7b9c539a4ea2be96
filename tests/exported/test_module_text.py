"""The text of exported modules, how they are written, and how they are loaded."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

from cases.export_case import Export, exported_of, imported
from cases.gemm_case import GemmCase
from cases.gemm_rows import BLOCKED_SMALL, CASES, TILED_SMALL
from ckwatch.exported.description import ExportedUnit, as_array, defaults_of, dtypes_of, formula
from ckwatch.exported.module_text import (
    ALL_PARTS,
    EXPORTED,
    checked_name,
    function_name,
    identifier,
    module_name,
    module_text,
    write_module,
)
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import Tensor
from ckwatch.render.renderer import Renderer
from exported.test_custom import PAIRS, PAIRS_SOURCE
from helpers.gemm_build import TEMPLATES, compile_source, render


def exported(case: GemmCase, language: str = "cpp", **names: str) -> ExportedUnit:
    """An export that is not compiled."""
    template, parameters = {
        "cpp": ("cpp/gemm_blocked.cpp.j2", BLOCKED_SMALL),
        "hip": ("hip/gemm_tiled.hip.j2", TILED_SMALL),
    }[language]
    rendered = render(Renderer((TEMPLATES,)), case.unit(template, parameters))
    return exported_of(case.operation(), language, rendered.text, rendered.symbol, parameters, **names)


FORMULAS = {
    "f16": "Y = X · W",
    "bf16 bias relu": "Y = relu(X · W + Bias)",
    "f32 alpha beta": "Y = gelu(-1.5 * (X · W) + 0.25 * Bias)",
    "f16 to f32": "Y = gelu (tanh form)(X · W + Bias)",
    "f8 row scales": "Y = inv_scale_x * inv_scale_w * (X · W) + Bias",
    "i8 to i8": "Y = 0.1 * inv_scale_x * inv_scale_w * (X · W)",
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name: str) -> None:
    assert formula(CASES[name].operation()) == FORMULAS[name]


@pytest.mark.parametrize(
    ("name", "defaults"),
    [
        ("f16", {"LDA": "K", "LDB": "K", "LDC": "N", "LDD": "0"}),
        ("f32 alpha beta", {"LDA": "M", "LDB": "N", "LDC": "M", "LDD": "N"}),
        ("f16 full col bias", {"LDA": "M", "LDB": "K", "LDC": "N", "LDD": "M"}),
    ],
)
def test_leading_dimensions(name: str, defaults: dict[str, str]) -> None:
    assert defaults_of(exported(CASES[name])) == defaults


@pytest.mark.parametrize(
    ("case", "arch", "dtypes"),
    [
        ("f8 row scales", "gfx950", '("float8_e4m3fn", "uint8")'),
        ("f8 row scales", "gfx942:xnack-", '("float8_e4m3fnuz", "uint8")'),
        ("to bf8", "gfx1100", '("float8_e5m2", "uint8")'),
        ("to bf8", "gfx90a", '("float8_e5m2fnuz", "uint8")'),
    ],
)
def test_eight_bit_floats(case: str, arch: str, dtypes: str) -> None:
    assert dtypes in module_text(exported(CASES[case], "hip", arch=arch))


def test_elements_that_share_a_byte_are_one_of_an_array() -> None:
    w = Tensor("W", "f4", "col", ("K", "N"), ("1", "LDB"), "W")
    assert (as_array(w).sizes, as_array(w).strides) == (("K / 2", "N"), ("1", "LDB / 2"))
    assert dtypes_of(w, "gfx950") == ("float4_e2m1fn_x2", "uint8")


def test_parts_agree_on_names() -> None:
    """They become one module: a name that two of them define would be the later one's for both."""
    defined = Counter[str]()
    for part in ALL_PARTS:
        for node in ast.parse(resources.files(EXPORTED).joinpath(f"{part}.py").read_text()).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                defined[node.name] += 1
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                defined.update(target.id for target in targets if isinstance(target, ast.Name))
    assert [name for name, count in defined.items() if count > 1] == []


CALLER = """
import {module}
x: list[float] = []
y: list[float] = {module}.gemm(x, x, x, kBatch=2)
size: int = {module}.workspace_size(M=1, N=2, K=3)
{module}.gemm(x, x, x, kbatch=2)
{module}.gemm(x, x, None)
wrong: int = {module}.gemm(x, x, x)
"""


def test_types_and_no_dependencies(folder: Path) -> None:
    library = folder.parent / "empty.so"
    library.touch()
    gemm = exported(CASES["bf16 bias relu"], name="typed_gemm")
    scaled = exported(CASES["f8 row scales"], "hip", name="typed_hip")
    pairs = exported_of(PAIRS, "cpp", PAIRS_SOURCE, "symbol", {}, name="typed_pairs")
    for one in (gemm, scaled, pairs):
        write_module(one, library.read_bytes(), folder)
    (folder / "caller.py").write_text(CALLER.format(module="typed_gemm"))
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--python-version",
        "3.10",
        "--no-incremental",
    ]
    done = subprocess.run(
        [*command, *sorted(folder.glob("*.py"))], cwd=folder, capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if "error:" in line]
    assert [line.partition(": ")[0] for line in lines] == [f"caller.py:{number}" for number in (6, 8)], done.stdout
    names = ", ".join(one.name for one in (gemm, scaled, pairs))
    check = (
        f"import sys; sys.path.insert(0, '.'); before = set(sys.modules); import {names}; "
        f"others = {{name.partition('.')[0] for name in set(sys.modules) - before}}; "
        f"assert others - set(sys.stdlib_module_names) <= {{'typed_gemm', 'typed_hip', 'typed_pairs'}}, others"
    )
    subprocess.run([sys.executable, "-I", "-S", "-W", "error", "-c", check], cwd=folder, check=True)


def test_what_a_module_says(export: Export) -> None:
    module = export(GemmCase("f32", "f32", "f32", bias="row", bias_dtype="f32", activation="relu"))
    assert module.__doc__.startswith("Y = relu(X · W + Bias), accumulated in f32, on the CPU it was compiled on.")
    assert (module.UNIT, module.ARCH) == ("gemm/instance@host", "host")
    assert "X: M × K, strides (LDA, 1), float32" in module.gemm.__doc__
    hip = module_text(exported(CASES["f16"], "hip"))
    assert "on AMD GPUs of arch gfx942." in hip
    assert "stream: object = None" in hip


@pytest.mark.parametrize(
    ("kernel", "instance", "arch", "name"),
    [
        ("gemm_f32", "6x16", "host", "gemm_f32_6x16"),
        ("gemm_f32", "one thread", "host", "gemm_f32_one_thread"),
        ("gemm-f16", "v3_128", "gfx942:xnack-", "gemm_f16_v3_128_gfx942_xnack"),
        ("3d", "ü", "host", "kernel_3d"),
    ],
)
def test_names_of_modules(kernel: str, instance: str, arch: str, name: str) -> None:
    assert module_name(kernel, instance, arch) == name
    assert checked_name(name) == name


@pytest.mark.parametrize("kernel", ["load", "print", "ctypes", "Library", "gemm", "class", "Tensor"])
def test_names_of_functions(kernel: str) -> None:
    assert function_name(exported(CASES["f16"], kernel=kernel)).isidentifier()
    taken = kernel not in ("gemm", "class")
    assert function_name(exported(CASES["f16"], kernel=kernel)) == f"{identifier(kernel)}{'_kernel' if taken else ''}"


@pytest.mark.parametrize("name", ["a b", "class", "numpy", "json", "", "a.b", "../x"])
def test_bad_names(name: str) -> None:
    with pytest.raises(CkwatchError):
        checked_name(name)


def test_only_exports_are_replaced(folder: Path) -> None:
    library = folder.parent / "x.so"
    library.write_bytes(b"first")
    one = exported(CASES["f16"], name="mine")
    paths = write_module(one, library.read_bytes(), folder)
    assert [path.name for path in paths] == ["mine.kernel.so", "mine.py"]
    library.write_bytes(b"second")
    write_module(one, library.read_bytes(), folder)
    assert paths[0].read_bytes() == b"second"
    assert sorted(path.name for path in folder.iterdir()) == ["mine.kernel.so", "mine.py"]
    paths[1].write_text("print('mine')\n")
    library.write_bytes(b"third")
    with pytest.raises(CkwatchError, match="ckwatch did not write it"):
        write_module(one, library.read_bytes(), folder)
    assert (paths[0].read_bytes(), paths[1].read_text()) == (b"second", "print('mine')\n")


def test_folders_that_cannot_be_written(folder: Path) -> None:
    one = exported(CASES["f16"], name="mine")
    folder.touch()
    with pytest.raises(CkwatchError, match="cannot write to"):
        write_module(one, b"", folder)


def test_a_library_that_cannot_be_loaded(compiler: str, folder: Path) -> None:
    """As on a machine without ROCm: the shared object is linked with a library that is not there."""
    folder.mkdir()
    source = folder / "stub.cpp"
    source.write_text('extern "C" int hipStub() { return 0; }')
    stub = folder / "libamdhip64.so"
    compile_source(compiler, source, stub, ["-fPIC", "-shared", "-Wl,-soname,libamdhip64.so.99"])
    one = exported(CASES["f16"], "hip")
    source.write_text(f'extern "C" int hipStub(); extern "C" int {one.symbol}() {{ return hipStub(); }}')
    library = folder / "unit.so"
    compile_source(compiler, source, library, ["-fPIC", "-shared", "-Wl,--no-as-needed", f"-L{folder}", "-lamdhip64"])
    stub.unlink()
    module = imported(one, library, folder)
    with pytest.raises(
        module.LibraryError, match=r"libamdhip64\.so\.99.*needs the HIP runtime of ROCm on this machine"
    ):
        module.load()


def test_libraries_that_do_not_belong(export: Export, folder: Path) -> None:
    module = export(CASES["f64"])
    library = Path(module.__file__).with_name(f"{module.__name__}.kernel.so")
    other = exported(replace(CASES["f64"], beta=3.0))
    wrong = imported(other, library, folder)
    with pytest.raises(wrong.LibraryError, match=f"belongs to another export: it has no {other.symbol}"):
        wrong.load()
    (folder / other.library).unlink()
    missing = imported(replace(other, name="missing"), library, folder)
    (folder / "missing.kernel.so").unlink()
    with pytest.raises(missing.LibraryError, match=r"missing\.kernel\.so is missing"):
        missing.load()
    (folder / "missing.kernel.so").write_bytes(b"no ELF file")
    with pytest.raises(missing.LibraryError, match="cannot be loaded"):
        missing.load()
