"""The parts of `benchmarks/measurement.py` that need no GPU."""

from __future__ import annotations

import pytest

from benchmarks.cuda_kernels import delayed_request
from benchmarks.measurement import find_delay, median_rows
from ckwatch.compile.request import CompileRequest
from ckwatch.model.errors import CkwatchError
from ckwatch.model.targets import Language

SOURCE = (
    'extern "C" PT_EXPORT int k_1(const uint16_t* X, int32_t M, size_t* workspace_size, cudaStream_t stream) {\n}\n'
)


def test_the_slower_variant() -> None:
    made = delayed_request(CompileRequest(SOURCE, "k_1", Language.CU, "sm_90a"))
    assert made.exports == ("k_1", "k_1_delayed")
    assert made.source.startswith(SOURCE)
    assert "int k_1_delayed(const uint16_t* X, int32_t M, size_t* workspace_size, cudaStream_t stream) {" in made.source
    assert "k_1(X, M, workspace_size, stream);" in made.source
    with pytest.raises(CkwatchError, match="does not define k_2"):
        delayed_request(CompileRequest(SOURCE, "k_2", Language.CU, "sm_90a"))


@pytest.mark.parametrize("percent_per_cycle", [0.00001, 0.0003, 0.0016])
def test_the_delay_is_found(percent_per_cycle: float) -> None:
    cycles, ratio = find_delay(lambda cycles: 1.004 + cycles * percent_per_cycle / 100)
    assert ratio == pytest.approx(1.02, abs=0.00101)
    assert cycles == pytest.approx(1.6 / percent_per_cycle, rel=0.15)


def test_a_shape_that_is_too_small() -> None:
    with pytest.raises(CkwatchError, match=r"is 3\.00 % slower without any delay"):
        find_delay(lambda _cycles: 1.03)


def test_rows() -> None:
    series = {
        "ckwatch, cold": [100.0, 100.1, 100.2],
        "ckwatch, hot": [90.0, 90.1, 92.0],
        "do_bench": [101.0, 103.0, 102.0],
        "do_bench, warmed up": [101.0, 100.9, 101.0],
        "plain, cold": [100.5, 100.6, 100.4],
        "plain, hot": [95.0, 96.0, 95.5],
    }
    cold, hot, default, warm = median_rows("4096", series)
    assert (cold.reference_name, cold.reference, cold.met) == ("plain, cold", 100.5, True)
    assert (hot.reference_name, hot.met) == ("plain, hot", False)
    assert hot.ratio == pytest.approx(90.1 / 95.5)
    assert (default.met, warm.met) == (True, False)
    assert default.ours == pytest.approx(100 * 0.2 / 100.1)
    assert "shape 4096" in cold.name
