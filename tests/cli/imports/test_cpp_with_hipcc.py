"""A program of Composable Kernel that `ckwatch import cpp` takes, compiled by the real hipcc and verified."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ckwatch.cli import main

pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(1800)]

PROGRAM = """\
#include "ck/ck.hpp"
#include "ck/tensor_operation/gpu/device/impl/device_elementwise_dynamic_vector_dims_impl.hpp"

struct ScaledSum
{
    ScaledSum(float scale) : scale_(scale) {}

    __host__ __device__ void operator()(ck::half_t& y, const ck::half_t& a, const float& b) const
    {
        const float sum = ck::type_convert<float>(a) + b;
        y               = ck::type_convert<ck::half_t>(sum > 0.f ? sum : scale_ * sum);
    }

    float scale_;
};

using Sum = ck::tensor_operation::device::DeviceElementwiseImpl<ck::Tuple<ck::half_t, float>, ck::Tuple<ck::half_t>,
    ScaledSum, 2, 64, 16, 16, 2, 2, ck::Sequence<1, 0>, ck::Sequence<2, 2>, ck::Sequence<2>>;

int main()
{
    ck::index_t M = 48, N = 64;
    std::array<ck::index_t, 2> lengths = {M, N};
    std::array<ck::index_t, 2> strides = {64, 1};
    std::array<ck::index_t, 2> of_row  = {0, 1};
    auto sum      = Sum{};
    auto argument = sum.MakeArgumentPointer(lengths, {strides, of_row}, {strides}, inputs, outputs, ScaledSum{0.25f});
}
"""


def test_an_imported_program_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sum.cpp").write_text(PROGRAM)
    assert main(["import", "cpp", "sum.cpp", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["open"] == {"sum": {}}
    status = main(["verify", "--no-daemon", "--trust", "--json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (found,) = [line for line in lines if line["event"] == "unit"]
    assert (status, found["outcome"]) == (0, "verified"), found
