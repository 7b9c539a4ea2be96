"""Kernel Tuner's caches and T4 files. The times are inventions of the tests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ckwatch.bench.imports.kernel_tuner import read_kernel_tuner
from ckwatch.bench.imports.records import LeftOut, TimingsFileError, arch_of

CACHE = """{
"device_name": "AMD Instinct MI250X",
"kernel_name": "convolution",
"problem_size": [4096, 4096],
"tune_params_keys": ["block_size_x", "use_shmem"],
"tune_params": {"block_size_x": [16, 32], "use_shmem": [0, 1]},
"objective": "time",
"cache": {
"16,0": {"block_size_x": 16, "use_shmem": 0, "time": 1.5, "times": [1.4, 1.6]},
"16,1": {"block_size_x": 16, "use_shmem": 1, "time": "CompilationFailedConfig"},
"32,0": {"block_size_x": 32, "use_shmem": 0, "time": 0},
"32,1": {"block_size_x": 32, "time": 2.0},"""


def test_a_cache_that_was_closed_or_was_not() -> None:
    for text in (CACHE, CACHE.removesuffix(",") + "}}", "\ufeff" + CACHE + "\n"):
        read = read_kernel_tuner(text)
        (one,) = read.records
        assert (one.kernel, one.for_kernel, one.instance) == ("convolution", "convolution", "16,0")
        assert (one.device, one.arch, one.time_us) == ("AMD Instinct MI250X", "gfx90a", 1500.0)
        assert (one.parameters, one.sizes) == ({"block_size_x": 16, "use_shmem": 0}, {"x": 4096, "y": 4096})
        assert read.failed == {"CompilationFailedConfig": 1}
        assert read.left_out == (LeftOut(11, "its time is 0"), LeftOut(12, "`32,1` has no value for use_shmem"))


def test_a_kernel_of_another_name() -> None:
    assert read_kernel_tuner(CACHE, "mine").records[0].for_kernel == "mine"


def t4(*results: dict[str, Any]) -> str:
    return json.dumps({"results": results, "schema_version": "1.0.0", "metadata": {"timeunit": "milliseconds"}})


def result(tile: Any, time: Any, invalidity: str = "correct", unit: str = "ms") -> dict[str, Any]:
    return {
        "configuration": {"tile": tile, "order": [1, 0]}, "invalidity": invalidity, "correctness": 1, "times": {},
        "measurements": [{"name": "power", "value": 1}, {"name": "time", "value": time, "unit": unit}],
    }  # fmt: skip


def test_a_t4_file() -> None:
    text = t4(result(8, 0.25), result(16, 3.0, "compile"), result({}, 1.0), result(8, 1.0, unit="days"), {})
    read = read_kernel_tuner(text, "mine", "NVIDIA H100 80GB HBM3")
    (one,) = read.records
    assert (one.parameters, one.time_us, one.arch) == ({"tile": 8, "order": (1, 0)}, 250.0, "sm_90")
    assert read.failed == {"compile": 1}
    assert [row.why for row in read.left_out] == [
        "result 3: tile is {}, which no parameter is",
        "result 4: unknown unit `days`",
        "result 5: it has no `configuration`",
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nothing", "it is not JSON"),
        ("[]", "it is not a JSON object"),
        ("{}", "neither `cache` nor `results`"),
        (t4(result(8, 1.0)), "does not name its kernel"),
        ('{"cache": {}}', "does not name its kernel"),
        ('{"cache": {}, "kernel_name": "k"}', "no `tune_params_keys`"),
    ],
)
def test_another_text(text: str, why: str) -> None:
    with pytest.raises(TimingsFileError, match=why):
        read_kernel_tuner(text)


def test_archs_of_devices() -> None:
    names = ("AMD Instinct MI300X", "NVIDIA A100-PCIE-40GB", "NVIDIA A100_80GB", "NVIDIA L4", "AMD Radeon PRO W6600")
    assert [arch_of(name) for name in names] == ["gfx942", "sm_80", "sm_80", "sm_89", ""]


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 400, "1e999", "1e307", "NaN", "-1"])
def test_a_number_that_no_time_is(number: str) -> None:
    read = read_kernel_tuner(CACHE.replace('"time": 0', f'"time": {number}'))
    assert len(read.records) == 1
    assert read.left_out[0].line == 11
    assert read.left_out[0].why.startswith("its time is ")


def test_a_value_that_no_parameter_is() -> None:
    for number in ("9" * 5000, "1e999", "NaN"):
        read = read_kernel_tuner(CACHE.replace('"use_shmem": 0, "time": 1.5', f'"use_shmem": {number}, "time": 1.5'))
        assert read.records == ()
        assert "which no parameter is" in read.left_out[0].why


def test_a_text_that_is_nested_too_deeply() -> None:
    with pytest.raises(TimingsFileError, match="nested too deeply"):
        read_kernel_tuner("[" * 100_000)
