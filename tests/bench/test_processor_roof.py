"""The processor's roof: measured once, kept by machine, never while something is timed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from ckwatch import CkwatchError
from ckwatch.bench.leases import FOLDER_VARIABLE, lease
from ckwatch.bench.probes import processor_roof as probe
from ckwatch.bench.probes.processor_roof import FILE, processor_roof


@pytest.fixture(autouse=True)
def own_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices of other tests are not those of these."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))


class Measured:
    """What measures; it counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, _cpus: tuple[int, ...], _environment: Mapping[str, str]) -> tuple[float, float]:
        self.times += 1
        return 2e11, 4e10


def test_it_is_measured_once_and_kept(tmp_path: Path) -> None:
    measure = Measured()
    first, second = (processor_roof(tmp_path, 1, measure=measure) for _ in range(2))
    assert (measure.times, first) == (1, second)
    assert (first.tflops, first.bandwidth_tbs, first.threads) == (0.2, 0.04, 1)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"other machine": {}}'])
def test_a_file_that_says_nothing_of_this_machine_is_no_hindrance(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert processor_roof(tmp_path, 1, measure=Measured()).tflops == 0.2
    assert json.loads((tmp_path / FILE).read_text())


def test_nothing_is_measured_beside_a_timing(tmp_path: Path) -> None:
    held = lease(probe.DEVICE, "a benchmark", wait_s=0, waiting=lambda _: None)
    assert held is not None
    with pytest.raises(CkwatchError, match="while something is timed"):
        processor_roof(tmp_path, 1, measure=Measured())
    held.release()
    assert processor_roof(tmp_path, 1, measure=Measured()).tflops == 0.2


def test_without_a_compiler_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(CkwatchError, match="takes a C compiler"):
        processor_roof(tmp_path, 1, {"PATH": str(tmp_path)})


@pytest.mark.toolchain
def test_the_probe_compiles_and_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = probe.SOURCE.replace("#define ROUNDS 1200000L", "#define ROUNDS 1000L").replace("TRIES 30", "TRIES 2")
    assert short != probe.SOURCE
    monkeypatch.setattr(probe, "SOURCE", short)
    monkeypatch.setattr(probe, "LEAST_BYTES", 2**20)
    monkeypatch.setattr(probe, "MOST_BYTES", 2**20)
    roof = processor_roof(tmp_path)
    assert roof.tflops > 0
    assert roof.bandwidth_tbs > 0
