"""The HIP runtime with the real hip-python on the stand-in: what it does when all goes well, or something lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.bench.runtimes.hip_devices import last_level_cache_bytes
from hip_stand_in import DESCRIPTION, PCI, build_blas, build_hip, build_kernels, environment, scenario

pytest.importorskip("rocm.bindings.hip")

GATED = "hipStreamWaitValue32 on signal memory"
GIVEN_UP = "given up: the host waits for the stream, or needs 1 s to fill it"


@pytest.fixture(scope="module")
def rocm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_hip(tmp_path_factory.mktemp("rocm"))


@pytest.fixture(scope="module")
def kernels(rocm: Path) -> str:
    return str(build_kernels(rocm, rocm / "kernels.so"))


def test_a_device_is_what_hip_says_of_it(rocm: Path) -> None:
    (device,) = scenario("find", environment(rocm))
    device.pop("driver")
    assert device == {
        "name": "hip:0",
        "description": DESCRIPTION,
        "arch": "gfx90a:sramecc+:xnack-",
        "pci": PCI,
        "total_memory_bytes": 1 << 30,
        "last_level_cache_bytes": 8 << 20,
        "local_memory_bytes": 65536,
        "compute_units": 110,
        "clock_mhz": 1700.0,
        "memory_clock_mhz": 1600.0,
        "runtime": "HIP 7.2.53211",
    }


@pytest.mark.parametrize(
    ("arch", "mib"), [("gfx90a", 8), ("gfx942", 256), ("gfx950", 256), ("gfx1100", 96), ("gfx1201", 64), ("gfx9999", 4)]
)
def test_the_cache_before_memory_is_not_the_l2_that_hip_reports(arch: str, mib: int) -> None:
    assert last_level_cache_bytes(f"{arch}:sramecc+:xnack-", 4 << 20) == mib << 20


def test_the_best_device_comes_first_and_keeps_its_number(rocm: Path) -> None:
    devices = scenario("find", environment(rocm, DEVICES="3"))
    assert [(device["name"], device["pci"], device["compute_units"]) for device in devices] == [
        ("hip:0", "0000:c1:00.0", 110),
        ("hip:1", "0000:c9:00.0", 104),
        ("hip:2", "0000:d1:00.0", 104),
    ]


def test_versions_say_what_timings_depend_on(rocm: Path) -> None:
    versions = scenario("versions", environment(rocm))
    assert versions["runtime"] == "HIP 7.2.53211"
    assert versions["gate"] == GATED
    assert versions["events"] == "without system fence"
    assert versions["hip-python"][0].isdecimal()
    assert set(versions) == {"runtime", "driver", "hip-python", "amdsmi", "gate", "events"}


def test_memory_is_copied_filled_and_given_back(rocm: Path) -> None:
    answer = scenario("memory", environment(rocm))
    assert answer == {"aligned": True, "copied": True, "filled": True, "used": 4096, "given back": True}


def test_nothing_begins_behind_a_gate(rocm: Path) -> None:
    answer = scenario("gated", environment(rocm))
    assert answer == {
        "nothing began": [True, True],
        "then": 3,
        "ordered": True,
        "gate": GATED,
    }


def test_a_host_that_waits_behind_a_gate_is_let_go(rocm: Path) -> None:
    assert scenario("waiting_inside", environment(rocm), 1) == {"inside": [0], "gate": GATED}


def test_a_host_that_always_waits_has_no_gates(rocm: Path) -> None:
    assert scenario("waiting_inside", environment(rocm), 5) == {"inside": [0, 1, 2, 3, 4], "gate": GIVEN_UP}


def test_a_gate_opens_when_its_block_fails(rocm: Path) -> None:
    answer = scenario("raising_inside", environment(rocm))
    assert answer == {"then": 4, "gate": GATED}


def test_what_a_device_lacks_is_done_otherwise(rocm: Path) -> None:
    lacking = ("wait-value", "signal-memory", "signal-memory,host-memory", "fence-flag")
    assert scenario("without", environment(rocm), *lacking) == {
        "wait-value": ["none: the device cannot wait for a value", "without system fence", True],
        "signal-memory": ["hipStreamWaitValue32 on host memory", "without system fence", True],
        "signal-memory,host-memory": ["none: no memory that host and device both see", "without system fence", True],
        "fence-flag": [GATED, "with system fence", True],
    }


def test_a_gate_that_would_never_open_is_found_when_the_device_is_opened(rocm: Path) -> None:
    answer = scenario("never_opening", environment(rocm, WITHOUT="opening"))
    assert answer["kind"] == "BROKEN"
    assert "does not see what the host writes" in answer["message"]


def test_a_kernel_of_the_abi_runs_on_the_stream(rocm: Path, kernels: str) -> None:
    answer = scenario("computing", environment(rocm), kernels, "right")
    assert answer == {"error": 0.0, "gate": GATED}


def test_a_kernel_whose_host_code_waits_is_run_without_gates(rocm: Path, kernels: str) -> None:
    answer = scenario("computing", environment(rocm), kernels, "waits")
    assert answer == {"error": 0.0, "gate": GIVEN_UP}


def test_a_second_hip_in_the_process_is_the_artifacts_fault(rocm: Path, tmp_path: Path) -> None:
    other = build_hip(tmp_path / "other") / "lib/libamdhip64.so"
    answer = scenario("another_hip", environment(rocm), str(other))
    assert answer["kind"] == "UNLOADABLE"
    assert "ROCM_PATH" in answer["hint"]


ROWS_AND_COLUMNS = [(x, w, y) for x in (True, False) for w in (True, False) for y in (True, False)]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(
    ("libraries", "names"),
    [
        (("libhipblaslt",), {"hipBLASLt 1.2.3"}),
        (("librocblas",), {"rocBLAS 0.0.0-stand-in"}),
        (("libhipblaslt", "librocblas"), {"hipBLASLt 1.2.3", "rocBLAS 0.0.0-stand-in"}),
    ],
)
def test_the_vendors_gemm_multiplies_in_every_layout(
    tmp_path: Path, libraries: tuple[str, ...], names: set[str], dtype: str
) -> None:
    rocm = build_hip(tmp_path)
    build_blas(rocm, *libraries)
    answer = scenario("library", environment(rocm), ROWS_AND_COLUMNS, dtype)
    assert answer["errors"] == [0.0] * len(ROWS_AND_COLUMNS)
    assert answer["name"] in names
    assert set(answer["before"].split(", ")) == names


def test_the_vendors_gemm_is_none_where_it_knows_no_such_types(tmp_path: Path) -> None:
    rocm = build_hip(tmp_path)
    build_blas(rocm, "libhipblaslt", "librocblas")
    answer = scenario("library", environment(rocm), [(True, True, True)], "bf16")
    assert answer["errors"] == [None]


def test_without_the_vendors_libraries_there_is_no_gemm_of_theirs(rocm: Path) -> None:
    answer = scenario("library", environment(rocm), [(True, True, True)], "f32")
    assert answer == {"before": "", "name": "", "errors": [None]}
