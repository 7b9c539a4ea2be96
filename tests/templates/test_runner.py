"""The standalone runners, linked with units and run: what they accept, and that they notice wrong kernels."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ckwatch.model.kernels import ParameterValue
from ckwatch.render.renderer import Renderer
from gemm_build import render
from gemm_case import GemmCase
from gemm_rows import BLOCKED_SMALL, CASES, TILED_SMALL
from host_compiler import HostCompiler
from patience import PATIENCE_S

Link = Callable[..., Path]

CPP = ("cpp/gemm_blocked.cpp.j2", "runner/gemm_runner.cpp.j2", BLOCKED_SMALL)
HIP = ("hip/gemm_tiled.hip.j2", "runner/gemm_runner.hip.j2", TILED_SMALL)


@pytest.fixture(scope="module")
def link(renderer: Renderer, host_compiler: HostCompiler, tmp_path_factory: pytest.TempPathFactory) -> Link:
    """Compile unit and runner apart and link them; `damage` is a replacement in the kernel's text."""

    def link_runner(
        case: GemmCase,
        templates: tuple[str, str, Mapping[str, ParameterValue]] = CPP,
        damage: tuple[str, str] | None = None,
    ) -> Path:
        kernel_template, runner_template, parameters = templates
        unit = case.unit(kernel_template, parameters)
        rendered = render(renderer, unit)
        text = rendered.text
        if damage is not None:
            assert damage[0] in text
            text = text.replace(*damage)
        sizes: dict[str, ParameterValue] = {"M": 70, "N": 50, "K": 90, "kBatch": 1, "symbol": rendered.symbol}
        runner_unit = replace(
            unit,
            kernel=replace(unit.kernel, template=runner_template),
            instance=replace(unit.instance, parameters=sizes),
        )
        objects = [host_compiler.compile(source) for source in (text, render(renderer, runner_unit).text)]
        return host_compiler.link(objects, tmp_path_factory.mktemp("runner") / "runner")

    return link_runner


def run(executable: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error."""
    result = subprocess.run(
        [str(executable), "--warmup-ms", "0", "--repeat", "3", *arguments],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S, env={**os.environ, **environment},
    )  # fmt: skip
    return result.returncode, result.stdout, result.stderr


RIGHT = (
    "f16 col row row",
    "f32 alpha beta",
    "f8 row scales",
    "to f8 fnuz",
    "one buffer",
    "i8 to i8",
    "f64",
    "reordered",
)


@pytest.mark.parametrize("name", RIGHT)
def test_right_kernels_pass(name: str, link: Link) -> None:
    executable = link(CASES[name])
    for arguments in (
        (),
        ("--M", "1", "--N", "1", "--K", "1"),
        ("--M=33", "--N=65", "--K=130", "--kBatch=3", "--seed", "7"),
        ("--LDA", "201", "--LDB", "203", "--LDC", "205", "--LDD", "207", "--kBatch", "2"),
    ):
        status, out, err = run(executable, *arguments)
        assert (status, err) == (0, ""), out
        assert "PASSED" in out


@pytest.mark.parametrize("name", ["f16", "reordered", "one buffer"])
def test_the_device_runner(name: str, link: Link) -> None:
    executable = link(CASES[name], HIP)
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
    assert "--kBatch           slices of K (split-K) (default 1)" in out
