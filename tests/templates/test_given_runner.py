"""Standalone runners whose inputs and right outputs are given, linked with right and with wrong kernels."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cases.given_runner_case import given_unit, write_data
from ckwatch.engine.queries.runner import data_folder, runner_unit
from ckwatch.render.renderer import Renderer
from fakes.host_compiler import HostCompiler
from fakes.patience import PATIENCE_S
from helpers.gemm_build import TEMPLATES, render

Link = Callable[..., Path]


@pytest.fixture
def link(host_compiler: HostCompiler, tmp_path: Path) -> Link:
    """Link the runner with the kernel, in whose text `damage` is a replacement, and write its data."""

    def link_runner(damage: tuple[str, str] = ("", "")) -> Path:
        unit, renderer = given_unit(tmp_path), Renderer((tmp_path / "templates", TEMPLATES))
        rendered = render(renderer, unit)
        assert damage[0] in rendered.text
        texts = (rendered.text.replace(*damage), render(renderer, runner_unit(unit, rendered.symbol)).text)
        program = host_compiler.link([host_compiler.compile(text) for text in texts], tmp_path / "runner")
        write_data(unit, rendered.symbol, data_folder(program))
        return program

    return link_runner


def run(program: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error."""
    result = subprocess.run(
        [str(program), "--warmup-ms", "0", "--repeat", "3", *arguments],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    return result.returncode, result.stdout, result.stderr


def test_a_right_kernel_and_what_the_runner_refuses(link: Link) -> None:
    program = link()
    status, out, err = run(program)
    assert (status, err) == (0, ""), out
    assert "reference.py:rows, X f32, Index u32, Y f32, Sum f32, Count u64\n" in out
    assert "shape 'small': M 3, N 5, LDY 7, scale 0.1, flag 1, on cpu" in out
    assert "tolerance of Count: integers must be equal" in out
    assert "verify after timing: right; 19 of 19 elements compared" in out
    assert out.endswith("PASSED\n")
    status, out, err = run(program, "--shape", "far more")
    assert (status, err) == (0, ""), out
    assert "right; 2041 of 2041 elements compared" in out
    status, _, err = run(program, "--shape=large")
    assert (status, err) == (2, "error: the shape 'large' was not exported; there are 'small', 'far more'\n")
    status, _, err = run(program, "--M", "4")
    assert (status, "sizes are chosen by --shape" in err) == (2, True)
    data_folder(program).joinpath("0.expected.1").write_bytes(b"1234")
    status, _, err = run(program)
    assert (status, "0.expected.1 is missing or damaged" in err) == (2, True)
    status, _, err = run(program, "--data", "/nowhere")
    assert (status, "/nowhere: there is no index.txt" in err) == (2, True)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (("scale * X", "1.01f * scale * X"), "elements of Y are wrong"),
        (("n < N; ++n", "n < N - 1; ++n"), "3 elements of Y were not written"),
        (("n < N; ++n", "n < N + 1; ++n"), "elements beside Y were written"),
        (("Sum[m] +=", "Sum[m] ="), "3 of 3 elements of Sum are wrong"),
        (("18446744073709551613u", "18446744073709551612u"), "1 of 1 elements of Count are wrong"),
        (("Count[0] =", "const_cast<float*>(X)[0] = 3, Count[0] ="), "X, an input, or what lies behind it was written"),
    ],
    ids=["a wrong value", "unwritten", "beside", "in-out", "one off", "an input"],
)
def test_wrong_kernels_fail(damage: tuple[str, str], said: str, link: Link) -> None:
    status, out, _ = run(link(damage))
    assert status == 1, out
    assert said in out
    assert out.endswith("FAILED\n")
