"""Shapes from logs and traces."""

from __future__ import annotations

import json

import pytest

from ckwatch.bench.imports.shape_logs import read_shape_log
from ckwatch.model.errors import CkwatchError
from helpers.each_row import each_row


def event(name: str, *dims: object) -> dict[str, object]:
    return {"name": name, "cat": "cpu_op", "args": {"Input Dims": list(dims)}}


TRACE = {
    "traceEvents": [
        event("aten::linear", [7, 64], [32, 64], [32]),
        event("aten::addmm", [32], [7, 64], [64, 32], [], []),
        event("aten::mm", [7, 64], [64, 32]),
        event("aten::bmm", [4, 7, 64], [4, 64, 9]),
        event("aten::mm", [0, 64], [64, 32]),
        event("aten::mm", [7, 64], [63, 32]),
        event("aten::mm", "x"),
        {"name": "aten::mm"},
        {"ph": "M"},
        3,
    ]
}
BENCH = """\
hipblaslt-bench --api_method c -m 32 -n 7 -k 64 --lda 32 --transA T --batch_count 1
some other line
./rocblas-bench -f gemm_ex --transposeA N -m 9 -n 7 -k 64 --batch_count 4
hipblaslt-bench --help
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (json.dumps(TRACE), {"7x32x64": 2, "4x7x9x64": 1}),
        (BENCH, {"7x32x64": 1, "4x7x9x64": 1}),
        ("M,N,K\n7,32,64\n7,32,64\n", {"7x32x64": 2}),
        ("\ufeffk, m, n, Count, other\n64, 7, 32, 5, x\n", {"7x32x64": 5}),
        ("B,M,N,K,calls\n4,7,9,64,2\n,7,32,64,3\n", {"7x32x64": 3, "4x7x9x64": 2}),
        ('{"M": 7, "N": 32, "K": 64}\n\n{"m": 7, "n": 32, "k": 64.0, "count": 9}\n', {"7x32x64": 10}),
        ('[{"M": 7, "N": 32, "K": 64, "calls": 2}]', {"7x32x64": 2}),
        ("M,N,K,count\n7,32,64,5\n\n7,32,64,5\n7,32,64\n", {"7x32x64": 11}),
    ],
)
def test_shapes_are_counted(text: str, expected: dict[str, int]) -> None:
    found = read_shape_log(text, "log")
    assert {one.name: one.count for one in found} == expected
    assert [one.count for one in found] == sorted((one.count for one in found), reverse=True)


@each_row(
    ("text", "message"),
    [
        ("", "log:1: no column M, N, K"),
        ("M,N\n1,2\n", "log:1: no column K"),
        ("M,N,K\n", "log has no shape of a GEMM"),
        ("M,N,K\n4,4,4\n4,x,4\n", "log:3: N is 'x': expected a whole number"),
        ("M,N,K\n4,,4\n", "log:2: N is missing"),
        ("M,N,K\n4,4,99999999999\n", "log:2: K is '99999999999'"),
        ("M,N,K,count\n4,4,4,0\n", "log:2: count is '0'"),
        ('{"M": 1, "N": 2}', "entry 1: K is missing"),
        ('{"M": true, "N": 2, "K": 3}', "entry 1: M is True"),
        ('{"M": 1e999, "N": 2, "K": 3}', "entry 1: M is inf"),
        ("[4]", "entry 1 is not an object"),
        ('{"M": 1,', "log:1 is not JSON: Expecting property"),
        ('{"M": 1, "N": 2, "K": 3}\n{"M"\n', "log:2 is not JSON"),
        ('{"traceEvents": []}', "log has no shape of a GEMM"),
        ("hipblaslt-bench -m x -n 7 -k 64\n", "log:1: N is 'x'"),
        ("M,N,K,m\n4,4,4,4\n", "log:1: two columns are called M"),
        ("M;N;K\n4;4;4\n", "log:1: no column M, N, K"),
        (f"M,N,K\n4,4,{'4' * 200_000}\n", "log is not CSV: field larger than field limit"),
        ("[" * 100_000, "log:1 is not JSON"),
        (f'{{"M": 1{"0" * 5000}}}', "log:1 is not JSON"),
    ],
)
def test_what_cannot_be_read_is_an_error_at_its_place(text: str, message: str) -> None:
    with pytest.raises(CkwatchError, match=message.replace("[", r"\[")):
        read_shape_log(text, "log")
