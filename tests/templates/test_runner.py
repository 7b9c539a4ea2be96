"""The standalone runners, linked with units and run: what they accept, and that they notice wrong kernels."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from cases.gemm_case import GemmCase
from cases.gemm_rows import BLOCKED_SMALL, CASES, TILED_SMALL
from ckwatch.engine.queries.runner import runner_unit
from ckwatch.model.kernels import ParameterValue, Shape
from ckwatch.model.text import span
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.shapes import with_defaults
from fakes.host_compiler import HostCompiler
from fakes.patience import PATIENCE_S
from helpers.gemm_build import TEMPLATES, render
from references.naive_kernels import BATCHED_GEMM, CONVOLUTION, GROUPED_GEMM, naive_unit
from references.naive_kernels import TEMPLATES as NAIVE

Link = Callable[..., Path]

CPP = ("cpp/gemm_blocked.cpp.j2", BLOCKED_SMALL)
HIP = ("hip/gemm_tiled.hip.j2", TILED_SMALL)


@pytest.fixture(scope="module")
def link(renderer: Renderer, host_compiler: HostCompiler, tmp_path_factory: pytest.TempPathFactory) -> Link:
    """Compile unit and runner apart and link them; `damage` is a replacement in the kernel's text."""

    def link_runner(
        case: GemmCase,
        templates: tuple[str, Mapping[str, ParameterValue]] = CPP,
        damage: tuple[str, str] | None = None,
    ) -> Path:
        operation = case.operation()
        sizes = with_defaults(operation, {"M": 70, "N": 50, "K": 90})
        shape = Shape("first", sizes, {"kBatch": 1}, span("/test.kernel.toml", 0, 0, 0, 0))
        unit = case.unit(*templates, shapes=(shape,))
        rendered = render(renderer, unit)
        text = rendered.text
        if damage is not None:
            assert damage[0] in text
            text = text.replace(*damage)
        runner = render(renderer, runner_unit(unit, rendered.symbol))
        objects = [host_compiler.compile(source) for source in (text, runner.text)]
        return host_compiler.link(objects, tmp_path_factory.mktemp("runner") / "runner")

    return link_runner


@pytest.fixture
def link_naive(host_compiler: HostCompiler, tmp_path: Path) -> Callable[..., Path]:
    """As `link`, of a kernel file of `naive_kernels`."""

    def link_runner(kernel: str, damage: tuple[str, str] = ("", "")) -> Path:
        unit = naive_unit(tmp_path, kernel)
        renderer = Renderer((NAIVE, TEMPLATES))
        rendered = render(renderer, unit)
        assert damage[0] in rendered.text
        runner = render(renderer, runner_unit(unit, rendered.symbol))
        texts = (rendered.text.replace(*damage), runner.text)
        return host_compiler.link([host_compiler.compile(text) for text in texts], tmp_path / "runner")

    return link_runner


def run(executable: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error."""
    result = subprocess.run(
        [str(executable), "--warmup-ms", "0", "--repeat", "3", *arguments],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S, env={**os.environ, **environment},
    )  # fmt: skip
    return result.returncode, result.stdout, result.stderr


USED = (
    "f16 col row row",
    "f32 alpha beta",
    "f8 row scales",
    "to f8 fnuz",
    "one buffer",
    "i8 to i8",
    "f64",
    "reordered",
)
RIGHT = {name: CASES[name] for name in USED} | {
    "u8 to i64": GemmCase("u8", "i8", "i64", accumulator="i32"),
    "u32 to u16": GemmCase("u32", "i16", "u16", accumulator="i64", bias="row", bias_dtype="u64"),
    "bool to u8": GemmCase("bool", "u8", "u8", accumulator="i32", bias="row", bias_dtype="i64"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_kernels_pass(name: str, link: Link) -> None:
    executable = link(RIGHT[name])
    for arguments in (
        (),
        ("--M", "1", "--N", "1", "--K", "1"),
        ("--M=33", "--N=65", "--K=130", "--kBatch=3", "--seed", "7"),
        ("--LDA", "201", "--LDB", "203", "--LDC", "205", "--LDD", "207", "--kBatch", "2"),
    ):
        status, out, err = run(executable, *arguments)
        assert (status, err) == (0, ""), out
        assert "PASSED" in out


@pytest.mark.parametrize("name", ["f16 col row row", "reordered", "one buffer", "u8 to i64"])
def test_the_device_runner(name: str, link: Link) -> None:
    executable = link(RIGHT[name], HIP)
    status, out, err = run(executable, "--kBatch", "2")
    assert (status, err) == (0, ""), out
    assert "on stand-in on the host (none)" in out
    assert "HIP events" in out
    status, out, err = run(executable, HIP_ON_HOST_NAME="emulated gfx942")
    assert (status, err) == (0, ""), out
    assert out.endswith("\ntime: none, the device is emulated\nPASSED\n")
    assert "HIP events" not in out
    status, out, err = run(executable, HIP_ON_HOST_NO_DEVICE="1")
    assert (status, out) == (2, "")
    assert "hipErrorNoDevice" in err
    status, out, err = run(executable, HIP_ON_HOST_MEMORY_BYTES="4000")
    assert status == 2
    assert "hipMalloc(&memory, bytes): hipErrorOutOfMemory (2)" in err


DAMAGE = {
    "a missing barrier": (HIP, "__syncthreads();", "", 2, "wrong"),
    "an edge not written": (CPP, "i < m_count; ++i)", "i + 1 < m_count; ++i)", 1, "NaN or were not written"),
    "gaps written": (CPP, "j < n_count; ++j)", "j <= n_count; ++j)", 1, "beside Y"),
    "K one short": (CPP, "k_end = std::min(problem.K,", "k_end = std::min(problem.K - 1,", 1, "wrong"),
    "no bias": (CPP, "value += static_cast<Value>(1.0)", "value += static_cast<Value>(0.0)", 2, "wrong"),
    "a slice not added": (CPP, "slice < problem.slices;", "slice + 1 < problem.slices;", 2, "wrong"),
    "workspace too small": (
        CPP,
        "*workspace_size = needed;",
        "*workspace_size = needed - 4;",
        2,
        "behind the workspace",
    ),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_wrong_kernels_fail(what: str, link: Link) -> None:
    templates, before, after, batch, message = DAMAGE[what]
    executable = link(GemmCase(bias="row"), templates, (before, after))
    status, out, err = run(executable, "--kBatch", str(batch), "--LDC", "60")
    assert status == 1, out + err
    assert "FAILED" in out
    assert message in out + err


def test_a_sample_is_compared_when_the_shape_is_big(link: Link) -> None:
    executable = link(GemmCase(bias="row"))
    status, out, _ = run(executable, "--M", "300", "--N", "200", "--K", "40", "--full-check-macs", "100000")
    assert status == 0, out
    assert "of 60000 elements compared (a sample of rows and columns)" in out


def test_a_refusing_kernel(link: Link) -> None:
    damage = ("(void)stream;", '(void)stream; if (M == 5) return refuse("five");')
    status, out, err = run(link(GemmCase(), CPP, damage), "--M", "5")
    assert status == 1
    assert "five" in err
    assert "the workspace query returned -23 (the kernel does not support these sizes)" in err
    assert "PASSED" not in out


USAGE = {
    "an unknown option": (("--m", "3"), "unknown option '--m'"),
    "no value": (("--M",), "--M takes a whole number from 1 to 2147483647, not ''"),
    "no number": (("--M", "3x"), "not '3x'"),
    "too big": (("--N", "2147483648"), "not '2147483648'"),
    "far too big": (("--N=99999999999999999999",), "not '99999999999999999999'"),
    "zero": (("--kBatch", "0"), "--kBatch takes"),
    "a leading dimension too small": (("--LDA", "89"), "LDA is smaller than K"),
}


def test_usage(link: Link) -> None:
    executable = link(GemmCase())
    for arguments, message in USAGE.values():
        status, _, err = run(executable, *arguments)
        assert (status, message in err) == (2, True), err
    status, out, _ = run(executable, "--help")
    assert status == 0
    assert "  --kBatch           slices of K that are multiplied side by side (default 1)\n" in out
    assert "  --LDA              leading dimension of X; by default without gaps\n" in out


BATCHED_RUNS = {
    "the first shape": ((), "B 3, M 20, N 17, K 33, LDA 33, LDB 33, LDC 17, LDD 0, BatchStrideA 660, "),
    "one matrix": (("--B", "1", "--M", "1", "--N", "1", "--K", "1"), "B 1, M 1, "),
    "gaps": (
        ("--LDA", "40", "--LDC", "20", "--BatchStrideC", "500"),
        "BatchStrideA 800, BatchStrideB 561, BatchStrideC 500,",
    ),
    "within each other": (
        ("--LDA", "99", "--BatchStrideA", "33", "--LDC", "51", "--BatchStrideC", "17"),
        "BatchStrideC 17",
    ),
    "one X for all": (
        (
            "--BatchStrideA",
            "0",
        ),
        "BatchStrideA 0,",
    ),
    "a sample": (
        ("--B", "50", "--full-check-macs", "100000"),
        "elements compared (a sample of matrices, rows and columns)",
    ),
}


def test_a_batched_gemm(link_naive: Callable[..., Path]) -> None:
    executable = link_naive(BATCHED_GEMM)
    for arguments, shown in BATCHED_RUNS.values():
        status, out, err = run(executable, *arguments)
        assert (status, err) == (0, ""), out
        assert shown in out
        assert "f32 row x f32 col -> f32 row, f32 accumulator, plus Bias (f32 N)\n" in out
    status, out, err = run(executable, "--BatchStrideC", "339")
    assert (status, out, err) == (2, "", "error: elements of Y would overlap: its strides are too small\n")
    status, out, err = run(
        executable, "--B", "2147483647", "--BatchStrideA", "2147483647", "--BatchStrideB", "2147483647"
    )
    assert (status, out, err) == (2, "", "error: the sizes are too large\n")


CONVOLUTION_RUNS = {
    "the first shape": (),
    "padding": ("--LeftPads_0", "1", "--LeftPads_1", "2", "--RightPads_0", "1", "--RightPads_1", "2"),
    "a filter larger than the input": ("--InputSize_0", "1", "--InputSize_1", "1", "--RightPads_0", "2"),
    "one group": ("--GroupCount", "1", "--NBatch", "1", "--ConvolutionStrides_0", "3"),
    "depthwise": ("--GroupCount", "6", "--NOutChannels", "12", "--Dilations_1", "3"),
}


def test_a_convolution(link_naive: Callable[..., Path]) -> None:
    executable = link_naive(CONVOLUTION)
    for arguments in CONVOLUTION_RUNS.values():
        status, out, err = run(executable, *arguments)
        assert (status, err) == (0, ""), out
        assert "f32 NHWGC x f32 GKYXC -> f32 NHWGK, f32 accumulator, plus Bias (f32 NOutChannels)\n" in out
    status, out, err = run(executable, "--help")
    assert (
        "  --ConvolutionStrides_1  elements of the input from one output to the next along axis 1 (default 2)\n" in out
    )
    assert "kBatch" not in out
    status, out, err = run(executable, "--FilterSize_1", "20")
    assert (status, out, err) == (2, "", "error: Y would have the size 2 x 8 x 8 x -3\n")
    status, out, err = run(executable, "--ConvolutionStrides_0", "0")
    assert (status, out, err) == (2, "", "error: ConvolutionStrides_0 is smaller than 1\n")
    status, out, err = run(executable, "--NInChannels", "7")
    assert status == 1
    assert "the workspace query returned -23" in err


GROUPED_RUNS = {
    "the first shape": (),
    "one row": ("--G", "1", "--M", "1", "--N", "1", "--K", "1"),
    "more groups than rows": ("--G", "70", "--M", "9"),
    "gaps": ("--LDA", "40", "--LDB", "35", "--LDC", "20", "--seed", "3"),
    "a sample": ("--full-check-macs", "2000"),
}


def test_a_grouped_gemm(link_naive: Callable[..., Path]) -> None:
    executable = link_naive(GROUPED_GEMM)
    for arguments in GROUPED_RUNS.values():
        status, out, err = run(executable, *arguments)
        assert (status, err) == (0, ""), out
        assert "grouped gemm, X f32, W f32, Offsets i32, " in out


NAIVE_DAMAGE = {
    "the next group": (GROUPED_GEMM, "W[g * ", "W[(g + 1 < G ? g + 1 : 0) * ", "wrong: Y[0, 0] is"),
    "a row too few": (GROUPED_GEMM, "m < Offsets[g];", "m + (g == G - 1) < Offsets[g];", "elements of Y are NaN or were not"),
    "one matrix for all": (BATCHED_GEMM, "W[b * ", "W[0 * ", "wrong: Y[1, 0, 0] is"),
    "the wrong border": (CONVOLUTION, "- LeftPads_0;", "- RightPads_0;", "wrong: Y[0, 0, 0, 0] is"),
    "the wrong group": (CONVOLUTION, "out / filters;", "out % filters * 0;", "wrong: Y[0, 4, 0, 0] is"),
    "the last channel": (CONVOLUTION, "out < NOutChannels;", "out + 1 < NOutChannels;", "elements of Y are NaN or were not"),
}  # fmt: skip


@pytest.mark.parametrize("what", NAIVE_DAMAGE)
def test_wrong_kernels_of_other_operations_fail(what: str, link_naive: Callable[..., Path]) -> None:
    kernel, before, after, message = NAIVE_DAMAGE[what]
    status, out, err = run(link_naive(kernel, (before, after)))
    assert status == 1, out + err
    assert message in out + err
