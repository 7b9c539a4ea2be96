"""What `ckwatch dispatch` writes, used as its users do: compiled, imported, and read as a table of AITER's."""

from __future__ import annotations

import itertools
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

from benches.timing_client import TimingClient, connecting_to
from ckwatch.bench.imports.aiter import read_aiter
from ckwatch.cli import main
from helpers.static_diagnostics import EXAMPLES

SEEN = [(m, n, 4096) for m in (1, 16, 128, 1024, 4096) for n in (1536, 7168)]
UNSEEN = list(itertools.product((3, 40, 700, 9000), (1024, 4608, 8192), (2048, 7168)))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the dispatcher of ten shapes for an MI308X."""
    root = tmp_path_factory.mktemp("dispatched") / "w"
    shutil.copytree(EXAMPLES / "scaled_gemm", root)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        Path("log.csv").write_text("\n".join(["M,N,K", *(",".join(map(str, own)) for own in SEEN)]))
        outputs = ["--out", "d.hpp", "--out", "d.py", "--aiter", "aiter.csv"]
        command = ["dispatch", "gemm_f8_block_scales", "--arch", "gfx942", "--part", "MI308X", "--shapes", "log.csv"]
        assert main([*command, *outputs], connected=connecting_to(TimingClient(root))) == 0
    return root


def test_aiter_has_no_names_for_another_dtype(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bf16 instance of AITER's is another kernel than one for f16 with the same parameters."""
    root = tmp_path / "w"
    monkeypatch.chdir(tmp_path)
    assert main(["init", "w"]) == 0
    command = ["dispatch", "gemm_f16", "--aiter", "a.csv"]
    assert main(command, connected=connecting_to(TimingClient(root))) == 2
    assert "AITER has no name for '128x128x64_v3'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--by", "measured", "--part", "MI300X"], "--part is for predicted times"),
        (["--device", "cpu"], "--device is for measured times"),
        (["--top", "3"], "--top chooses among the shapes of a log"),
    ],
)
def test_no_option_is_ignored(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dispatch", "gemm", *arguments], connected=connecting_to(TimingClient(EXAMPLES))) == 2
    assert message in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_the_header_and_the_module_choose_alike_on_shapes_that_were_not_seen(written: Path) -> None:
    calls = [*SEEN, *UNSEEN]
    program = written / "main.cpp"
    space = "gemm_f8_block_scales_dispatch"
    lines = "".join(f"    std::puts(name({m}, {n}, {k}));\n" for m, n, k in calls)
    program.write_text(
        f'#include "d.hpp"\n#include <cstdio>\n'
        f"static_assert({space}::choose(1, 1536, 4096) == {space}::choose(1, 1536, 4096));\n"
        f"const char* name(std::int64_t m, std::int64_t n, std::int64_t k)\n"
        f"{{\n    return {space}::names[static_cast<int>({space}::choose(m, n, k))];\n}}\n"
        f"int main()\n{{\n{lines}}}\n"
    )
    compiled = ["c++", "-std=c++17", "-O0", "-Wall", "-Wextra", "-Werror", str(program), "-o", str(written / "main")]
    subprocess.run(compiled, check=True, timeout=120)
    ran = subprocess.run([str(written / "main")], check=True, capture_output=True, text=True, timeout=60)
    module = runpy.run_path(str(written / "d.py"))
    chosen = [module["choose"](m, n, k) for m, n, k in calls]
    assert ran.stdout.split() == chosen
    assert set(chosen) <= set(module["INSTANCES"])
    assert len(set(chosen)) > 1


def test_a_table_of_aiter_says_part_instance_and_time(written: Path) -> None:
    found = read_aiter((written / "aiter.csv").read_text())
    assert not found.left_out
    assert sorted(tuple(one.sizes[size] for size in "MNK") for one in found.records) == sorted(SEEN)
    assert {(one.device, one.arch, one.dtype) for one in found.records} == {("MI308X", "gfx942", "f8")}
    module = runpy.run_path(str(written / "d.py"))
    names = {one.instance: module["choose"](*(one.sizes[size] for size in "MNK")) for one in found.records}
    assert len(set(names.values())) == len(names) > 1
