"""`ckwatch export KERNEL --autotune`: what is chosen by which timings, and the export with the real compiler."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benches.timing_client import knowing
from ckwatch.cli import main
from ckwatch.cli.export.autotune import chosen_shapes, one_arch, times_of
from ckwatch.model.errors import CkwatchError
from ckwatch.model.timings import Timing
from ckwatch.wire.benchmarks import RankedTiming

ROOT = Path(__file__).parents[3]


def ranked(shape: str, instance: str, median_us: float, rank: int | None = 1, **fields: Any) -> RankedTiming:
    """A rank by a fresh timing on the host."""
    timing = Timing(
        **{
            "id": 1, "unit": f"gemm_f32/{instance}@host", "kernel": "gemm_f32", "instance": instance, "arch": "host",
            "shape": shape, "cache": "cold", "device": "cpu", "device_description": "a processor",
            "sizes": {"M": 8, "N": 8, "K": 8}, "runtime": {"kBatch": 1.0}, "median_us": median_us, "taken_at": 1e9,
            **fields,
        }
    )  # fmt: skip
    return RankedTiming(unit=timing.unit, instance=instance, shape=shape, rank=rank, timing=timing)


LEFT_OUT: dict[str, RankedTiming] = {
    "not ranked": ranked("s", "x", 1.0, rank=None),
    "without a timing": RankedTiming(unit="gemm_f32/x@host", instance="x", shape="s", rank=1, timing=None),
    "given up": ranked("s", "x", 1.0, given_up=True),
    "of an earlier text": ranked("s", "x", 1.0, standing="stale"),
    "of no device": ranked("s", "x", 1.0, device_description="stand-in for a GPU"),
    "of another arch": ranked("s", "x", 1.0, arch="gfx942"),
    "of another shape": ranked("t", "x", 1.0),
    "of another device": ranked("s", "x", 1.0, device="hip:1"),
}


@pytest.mark.parametrize("what", LEFT_OUT)
def test_timings_that_do_not_count(what: str) -> None:
    good = ranked("s", "good", 2.0, pci="0000:01:00.0")
    found = times_of([LEFT_OUT[what], good], "host", ["s", "never timed"], "cpu")
    assert found == {"s": {"good": good.timing}}


@pytest.mark.parametrize("device", ["cpu", "0000:01:00.0", "a processor", None])
def test_devices_by_any_of_their_names(device: str | None) -> None:
    assert times_of([ranked("s", "a", 2.0, pci="0000:01:00.0")], "host", ["s"], device)


def test_few_instances_are_enough() -> None:
    """`a` is within 2 % of the best on both of its shapes."""
    rows = [
        *(ranked("one", "a", 100.0), ranked("one", "b", 99.0)),
        *(ranked("two", "a", 50.0), ranked("two", "c", 49.5)),
        *(ranked("three", "a", 10.0), ranked("three", "d", 9.0)),
    ]
    shapes = chosen_shapes(times_of(rows, "host", ["one", "two", "three"], None))
    assert [(one.shape, one.instance, one.median_us) for one in shapes] == [
        *(("one", "a", 100.0), ("two", "a", 50.0), ("three", "d", 9.0)),
    ]
    assert shapes[0].arguments == {"M": 8, "N": 8, "K": 8, "kBatch": 1}
    assert (shapes[0].device, shapes[0].taken_at) == ("cpu, a processor", 1e9)


def test_one_arch() -> None:
    assert one_arch("k", ["gfx942", "gfx942"]) == "gfx942"
    with pytest.raises(CkwatchError, match="'k' is compiled for gfx942, gfx950, and a module is for one"):
        one_arch("k", ["gfx942", "gfx950"])


KNOWN = [
    *(ranked("long", "6x16", 90.0, sizes={"M": 512, "N": 512, "K": 512}), ranked("long", "one thread", 200.0, rank=2)),
    ranked("short", "one thread", 5.0, sizes={"M": 4, "N": 8, "K": 16}),
    ranked("gone from the file", "6x16", 1.0, sizes={"M": 9, "N": 130, "K": 33}),
]
SHAPES = "".join(
    f'[[shape]]\nname = "{name}"\nM = {m}\nN = {n}\nK = {k}\n\n'
    for name, m, n, k in (("long", 512, 512, 512), ("short", 4, 8, 16), ("new", 7, 7, 7))
)


Run = Callable[..., int]


@pytest.fixture
def example(trusted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The C++ example with other shapes."""
    root = tmp_path / "w"
    shutil.copytree(ROOT / "examples/cpp", root)
    kernel_file = root / "gemm_f32.kernel.toml"
    before, _, after = kernel_file.read_text().partition("[[shape]]")
    kernel_file.write_text(before + SHAPES + after[after.index("[[instance]]") :])

    monkeypatch.syspath_prepend(str(tmp_path))
    return root


@pytest.fixture
def run(example: Path, known: list[RankedTiming]) -> Run:
    """The export of the example, whose timings are those in `known`."""

    def export(*arguments: str) -> int:
        command = ["export", "gemm_f32", "--autotune", "-C", str(example), "--out", str(example.parent), *arguments]
        return main(command, connected=knowing(known))

    return export


@pytest.mark.parametrize("known", [[], [ranked("short", "6x16", 1.0, given_up=True)]])
def test_without_timings(run: Run, example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 2
    err = capsys.readouterr().err
    assert "'gemm_f32' has no timings to choose by" in err
    assert "run `ckwatch tune gemm_f32` (or `ckwatch bench gemm_f32`) first" in err
    assert not list(example.parent.glob("*.py"))


@pytest.mark.parametrize("known", [KNOWN])
def test_timings_elsewhere(run: Run, example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--device", "hip:3") == 2
    assert "its latest ones are of cpu;" in capsys.readouterr().err
    assert run("--shape", "new") == 2
    assert "has no timings to choose by" in capsys.readouterr().err
    assert run("--shape", "none") == 2
    assert "'gemm_f32' has no shape 'none'" in capsys.readouterr().err


@pytest.mark.toolchain
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("known", [KNOWN])
def test_an_example_of_the_host(run: Run, example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--json") == 0
    *files, last = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    written = [Path(line["path"]).name for line in files]
    assert written == ["gemm_f32_6x16.kernel.so", "gemm_f32_one_thread.kernel.so", "gemm_f32.py"]
    assert (last["event"], last["module"], last["function"]) == ("autotuned", "gemm_f32", "gemm_f32")
    assert [(one["shape"], one["instance"]) for one in last["shapes"]] == [("long", "6x16"), ("short", "one thread")]
    assert last["left_out"] == ["new"]
    importlib.invalidate_caches()
    module = importlib.import_module("gemm_f32")
    sys.modules.pop("gemm_f32")
    rng = np.random.default_rng(1)
    for (m, n, k), first in {(512, 512, 512): "6x16", (4, 8, 16): "one thread", (9, 130, 33): "one thread"}.items():
        x, w, bias = (rng.uniform(-1, 1, size).astype(np.float32) for size in ((m, k), (k, n), (n,)))
        np.testing.assert_allclose(module.gemm_f32(x, w, bias), np.maximum(x @ w + bias, 0), rtol=1e-4, atol=1e-4)
        assert module.instances_for(M=m, N=n, K=k)[0] == first
    with pytest.raises(module.UnsupportedError, match="nor does any other instance"):
        module.gemm_f32(x, w, bias, kBatch=0)
    assert run() == 0
    assert "left out, without timings: new" in capsys.readouterr().out


@pytest.mark.toolchain
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("known", [KNOWN])
def test_an_instance_that_does_not_compile(run: Run, example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel_file = example / "gemm_f32.kernel.toml"
    kernel_file.write_text(kernel_file.read_text().replace("Threads = 1", "Threads = -1"))
    assert run() == 1
    assert "gemm_f32/one thread@host: failed" in capsys.readouterr().out
    assert not list(example.parent.glob("*.py"))
