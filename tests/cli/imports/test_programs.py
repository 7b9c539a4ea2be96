"""Facts that `ckwatch import hip` takes from a program around a kernel: allocations, values, checks, loops."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ckwatch.cli import main
from ckwatch.cli.imports.hip_kernels import hip_kernels
from ckwatch.cli.imports.host_code import MemoryContent
from ckwatch.cli.imports.launches import KernelLaunch, kernel_launches
from ckwatch.headers.masked_text import masked
from ckwatch.model.errors import ToolchainError
from ckwatch.model.kernels import SizeLimits
from ckwatch.workspace.loading import load_workspace
from helpers.each_row import each_row

Capture = pytest.CaptureFixture[str]

PROGRAM = """\
#include <hip/hip_runtime.h>
#include "options.hpp"
template <unsigned int TILE>
__global__ void relax(const float* weights, float* paths, unsigned int* changes, const unsigned int nodes,
                      const unsigned int step, const float scale, uint2 origin) {
  paths[threadIdx.x] += scale * weights[step];
  if (nodes) atomicAdd(&changes[0], 1u);
}
void declare(Options& options) {
  constexpr unsigned int columns = 96;
  options.add("c", "columns", columns, "how many columns");
}
int main(int argc, char** argv) {
  constexpr unsigned int tile = 32;
  const unsigned int nodes = argc > 1 ? atoi(argv[1]) : 1u << 7;
  const unsigned int columns = options.get<unsigned int>("c");
  if (nodes % tile != 0 || columns % tile != 0) {
    std::cerr << "multiples of " << tile;
    return 1;
  }
  std::vector<float> host(nodes * columns, 1.0f);
  const size_t bytes = host.size() * sizeof(float);
  float *weights, *paths;
  unsigned int* changes;
  HIP_CHECK(hipMalloc(&weights, bytes));
  HIP_CHECK(hipMalloc((void**)&paths, sizeof(float) * nodes * 2 * (3 + 1)));
  HIP_CHECK(hipMalloc(&changes, sizeof(*changes)));
  HIP_CHECK(hipMemcpy(weights, host.data(), bytes, hipMemcpyHostToDevice));
  HIP_CHECK(hipMemset(changes, 0, sizeof(*changes)));
  const float scale = 0.5f;
  const dim3 grid(columns / tile, nodes / tile);
  for (unsigned int k = 0; k < nodes; ++k) {
    relax<tile><<<grid, dim3(tile), 0, 0>>>(weights, paths, changes, nodes, k, scale, {columns, 1});
    HIP_CHECK(hipGetLastError());
  }
}
"""


def no_toolchain() -> None:
    raise ToolchainError("no toolchain")


def launch_in(body: str, kernel: str = "float* p, int n", arguments: str = "p, m") -> KernelLaunch:
    text = f"__global__ void k({kernel}) {{ p[0] = 1; }}\nint main(int argc, char** argv) {{ {body} k<<<1, 64>>>({arguments}); }}\n"
    (found,) = hip_kernels(text)
    return kernel_launches(text, masked(text), found)[0]


def test_a_program_says_all_of_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    Path("relax.hip").write_text(PROGRAM)
    assert main(["import", "hip", "relax.hip", "--json"], dependencies={"discover": no_toolchain}) == 0
    assert json.loads(capsys.readouterr().out)["open"] == {"relax": {}}
    (unit,) = load_workspace(tmp_path).units
    assert unit.instance.parameters == {
        "TILE": 32, "origin": "uint2{columns, 1}", "Grid": "columns / TILE, nodes / TILE", "Block": "TILE", "SharedBytes": "0",
    }  # fmt: skip
    operation = unit.kernel.operation
    assert {one.name: (one.sizes, one.in_out) for one in operation.tensors} == {
        "weights": (("nodes * columns",), False), "paths": (("nodes * 2 * 4",), True), "changes": (("1",), True),
    }  # fmt: skip
    assert operation.limits == {
        "step": SizeLimits(greatest="nodes - 1"), "nodes": SizeLimits(multiple=32), "columns": SizeLimits(multiple=32),
    }  # fmt: skip
    text = Path("kernels/relax.kernel.toml").read_text()
    assert 'sizes = ["nodes * columns"]  # from line 25, which allocates so many' in text
    assert '\nvalues = "zeros"\n' in text
    shape = text.split("[[shape]]\n")[1].split("\n\n")[0]
    assert shape == "nodes = 128\nstep = 0  # of the loop in line 32: k < nodes\ncolumns = 96\nscale = 0.5"


@each_row(
    ("body", "elements", "sizes"),
    [
        ("int m = 9; float* p; hipMalloc(&p, m * 4);", "n * 4", {}),  # bytes of which nobody says what they are
        ("int m = 9; float* p; hipMalloc(&p, m * sizeof(float));", "n", {}),
        ("int m = 9; float* p; hipMallocManaged(&p, sizeof(float) * (m + 1));", "n + 1", {}),
        ("int m = 9; float* p; cudaMalloc((void **)&p, (m << 2) * sizeof(float));", None, {}),
        ("int m = 9; int r = rows(); float* p; hipMalloc(&p, r * m * sizeof(float));", "r * n", {"r": None}),
        ("int m = 9; int w = 1 << 4; float* p; hipMalloc(&p, w * sizeof(float));", "16", {}),
        ("int m = 9; int w = m << 4; float* p; hipMalloc(&p, w * sizeof(float));", None, {}),  # no size of its own
        ("int m = 9; int s = get(); int w = 1 << s; float* p; hipMalloc(&p, w * sizeof(float));", "w", {"w": None}),
        ("int m = 9; float* p; if (m) hipMalloc(&p, 4 * sizeof(float)); else hipMalloc(&p, sizeof(float));", None, {}),
        ("int m = 9; float* p = buffer(m);", None, {}),
    ],
)
def test_elements_that_a_program_allocates(body: str, elements: str | None, sizes: dict[str, None]) -> None:
    facts = launch_in(body).facts
    found = facts.tensors.get("p")
    assert (None if found is None else found.elements) == elements
    assert facts.sizes == sizes


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("int m = 1 << 10;", "1024"),
        ("int m = 3; m = 4 * m;", "12"),
        ("int m = 3; if (argc > 1) m = atoi(argv[1]);", "3"),
        ("int m = argc > 1 ? atoi(argv[1]) : 77;", "77"),
        ("int m = argc < 2 ? 78 : atoi(argv[1]);", "78"),
        ("int m = atoi(argv[1]);", None),
        ("int m = 3; if (fast) m = 4;", None),
        ("for (int m = 5; m <= 9; ++m)\\n{", "5"),
        ("int m = 3; read(&m);", None),
    ],
)
def test_values_without_arguments(body: str, value: str | None) -> None:
    assert launch_in(body.replace("\\n", "\n")).facts.values.get("n") == value


@pytest.mark.parametrize(
    ("check", "multiple"),
    [
        ("if (m % 8) return 1;", "8"),
        ("if (m % 8 != 0 || m < 1) { usage(); exit(1); }", "8"),
        ("assert(m % 8 == 0 && m > 0);", "8"),
        ("if (m % 8 != 0) { tail = true; }", None),
        ("if (m % 8 != 0 && odd) return 1;", None),
        ("if (m % 8 == 0) return fast();", None),
    ],
)
def test_checks_become_limits(check: str, multiple: str | None) -> None:
    limits = launch_in(f"int m = 64; {check}").facts.limits.get("n", {})
    assert limits.get("multiple") == multiple


@pytest.mark.parametrize(
    ("body", "content"),
    [
        ("", MemoryContent.UNDEFINED),
        ("hipMemcpy(p, h, 36, hipMemcpyHostToDevice);", MemoryContent.COPIED),
        ("hipMemset(p, 0, 36);", MemoryContent.ZEROS),
        ("hipMemset(p, 255, 36);", MemoryContent.COPIED),
        ("hipMemset(p, 0, 36); fill<<<1, 64>>>(p);", MemoryContent.UNKNOWN),
    ],
)
def test_content_of_allocated_memory(body: str, content: MemoryContent) -> None:
    facts = launch_in(f"int m = 9; float* p; hipMalloc(&p, m * sizeof(float)); {body}").facts
    assert facts.tensors["p"].content is content


FILTER = """\
namespace filters {
__constant__ float taps[2 * RADIUS + 1];
__constant__ float unused[4];
__global__ void smooth(const float* x, float* y) { y[threadIdx.x] = taps[0] * x[threadIdx.x]; }
}
void run(const float* x, float* y, int n, const float* given) {
  hipMemcpyToSymbol(HIP_SYMBOL(filters::taps), given, sizeof(filters::taps));
  filters::smooth<<<n / 64, 64>>>(x, y);
}
"""


def test_what_the_host_copies_to_the_device_is_an_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("smooth.hip").write_text(f"#define RADIUS 2\n{FILTER}")
    words = ["import", "hip", "smooth.hip", "--set", "x=n", "--set", "y=n"]
    assert main(words, dependencies={"discover": no_toolchain}) == 0
    (unit,) = load_workspace(tmp_path).units
    assert [(one.name, one.sizes) for one in unit.kernel.operation.tensors] == [
        ("x", ("n",)), ("taps", ("5",)), ("y", ("n",)),
    ]  # fmt: skip
    template = Path("templates/smooth.hip.j2").read_text()
    assert "hipMemcpyToSymbolAsync(::filters::taps, {{ ptr(taps) }}, sizeof(::filters::taps), 0" in template
    assert "unused" not in template
    text = Path("kernels/smooth.kernel.toml").read_text()
    assert "whole blocks alone, say so:\n# [operation.limits]\n# n = { multiple = … }\n" in text


def test_an_argument_that_is_answered_stands_for_itself_in_the_grid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("copy.hip").write_text(
        "template <int WIDTH> __global__ void copy(const float* x, float* y, int rows, int outputs) {\n"
        "  int row = blockIdx.x; if (row < rows) for (int k = 0; k < WIDTH; ++k) y[row] = x[row * WIDTH + k]; }\n"
        "void two(float* x, float* y, int r, int o) { copy<2><<<o / 4 + 1, 64>>>(x, y, r, o); }\n"
        "void three(float* x, float* y, int r, int o) { copy<3><<<o / 4 + 1, 64>>>(x, y, r, o); }\n"
    )
    words = ["import", "hip", "copy.hip", "--set", "outputs=rows + 1", "--set", "WIDTH=3"]
    assert main(words, dependencies={"discover": no_toolchain}) == 0
    (unit,) = load_workspace(tmp_path).units
    assert unit.instance.parameters["Grid"] == "(rows + 1) / 4 + 1"
    assert unit.kernel.operation.size_arguments == ("rows",)
    assert [one.sizes for one in unit.kernel.operation.tensors] == [("rows", "3"), ("rows",)]
