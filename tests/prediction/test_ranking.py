"""Instances by predicted time, ties, and what sets them apart."""

from __future__ import annotations

import pytest

from ckwatch.codeobject.report import CodeObjectReport
from ckwatch.model.kernel_problem import KernelProblem
from ckwatch.model.kernels import ParameterValue
from ckwatch.prediction.predict import target_of
from ckwatch.prediction.ranking import RankedInstance, RankingCandidate, rank
from ckwatch.prediction.times import Bottleneck
from helpers.kernel_reports import TILE_128, kernel, loop, problem, report

SQUARE = problem(4096, 4096, 4096)
LARGE: dict[str, ParameterValue] = {"MPerBlock": 256, "NPerBlock": 256, "KPerBlock": 32}


def entry(
    name: str, found: CodeObjectReport | None = None, parameters: dict[str, ParameterValue] | None = None, why: str = ""
) -> RankingCandidate:
    return RankingCandidate(name=name, parameters=parameters or {**TILE_128}, report=found, why_not=why)


def ranked(*entries: RankingCandidate, work: KernelProblem = SQUARE) -> tuple[RankedInstance, ...]:
    found = target_of("gfx942", "MI300X")
    assert found is not None
    return rank(entries, work, found)


def test_the_fastest_is_first_and_others_say_what_they_lose() -> None:
    alone = entry("alone", report(kernel(waves=1)))
    slow = entry("slow", report(kernel(waves=1, with_loop=loop(clocks=2000.0, matrix_use=256 / 500))))
    full = entry("full", report(kernel(waves=2)))
    first, second, third = ranked(slow, alone, full)
    assert [(row.name, row.place) for row in (first, second, third)] == [("full", 1), ("alone", 2), ("slow", 3)]
    assert first.ratio == 1.0
    assert first.because.startswith(
        "the matrix units are busy all the time; wave quantization: 1024 workgroups on 304 CUs"
    )
    assert second.ratio == pytest.approx(1080 / 1024, rel=1e-3)
    assert second.because == "matrix use of the loop 95 % against 100 %"
    assert third.because == "matrix use of the loop 51 % against 100 %"


def test_the_factor_that_costs_most_comes_first() -> None:
    # 64 workgroups of 3000×128: one for each fifth compute unit, with one wave on each of its SIMDs
    fits = entry("fits", report(kernel()))
    padded = entry("padded", report(kernel()), {"MPerBlock": 3000, "NPerBlock": 128, "KPerBlock": 64})
    first, second = ranked(padded, fits)
    assert (first.name, second.name) == ("fits", "padded")
    assert second.because == (
        "CUs in use (wave quantization) 21 % against 84 %, matrix use of the loop 95 % against 100 %, "
        "work that is not padding 68 % against 100 %"
    )


def test_what_is_limited_by_something_else_says_that() -> None:
    heavy = entry("heavy", report(kernel(with_loop=loop(lds_read_bytes=65536))))
    _, second = ranked(heavy, entry("usual", report(kernel())))
    assert second.prediction.limited_by is Bottleneck.LDS
    assert second.because.startswith("the LDS cannot deliver")


def test_what_cannot_be_told_apart_shares_a_place() -> None:
    # by memory both take the same; the one with less of everything else stands first
    narrow = problem(4096, 4096, 64)
    lazy = entry("a", report(kernel(waves=1)))
    quick = entry("b", report(kernel(waves=2)))
    worse = entry("c", report(kernel(waves=1, with_loop=loop(clocks=12000.0, matrix_use=256 / 3000))))
    rows = ranked(lazy, worse, quick, work=narrow)
    assert [(row.name, row.place) for row in rows] == [("b", 1), ("a", 1), ("c", 3)]
    assert rows[1].because == "as fast: memory limits both"
    assert rows[2].prediction.limited_by is Bottleneck.LOOP


def test_those_without_a_prediction_come_last_by_their_bound() -> None:
    rows = ranked(
        entry("broken", why="it does not compile"),
        entry("unknown", report(kernel()), {"Tile": 1}),
        entry("no loop", report(kernel(with_loop=None)), {"MPerBlock": 3000, "NPerBlock": 128, "KPerBlock": 64}),
        entry("fits", report(kernel())),
    )
    assert [(row.name, row.place) for row in rows] == [
        ("fits", 1),
        ("unknown", None),
        ("broken", None),
        ("no loop", None),
    ]
    assert rows[1].because == "the parameters do not say the tile (MPerBlock, NPerBlock, KPerBlock)"
    assert rows[2].because == "it does not compile"
    assert rows[3].because == "no main loop was found: only a bound"
    assert all(row.ratio is None for row in rows[1:])


def test_what_refuses_the_shape_has_no_place() -> None:
    short: dict[str, ParameterValue] = {**TILE_128, "BlkGemmPipelineVer": "v4"}
    rows = ranked(entry("v4", report(kernel()), short), entry("v1", report(kernel())), work=problem(4096, 4096, 192))
    assert [(row.name, row.place) for row in rows] == [("v1", 1), ("v4", None)]
    assert rows[1].because == ("does not support the shape: K = 192 is 3 × KPerBlock: pipeline v4 needs more than 3")


def test_the_order_does_not_depend_on_the_order_given() -> None:
    entries = [entry(name, report(kernel(waves=waves)), size) for name, waves, size in (
        ("x", 1, LARGE), ("y", 2, LARGE), ("z", 2, None), ("w", 2, None),
    )]  # fmt: skip
    assert ranked(*entries) == ranked(*reversed(entries))


def test_nothing_to_rank() -> None:
    assert ranked() == ()


def test_parameters_alone_may_give_a_place_but_not_to_what_does_not_compile() -> None:
    known: dict[str, ParameterValue] = {
        **TILE_128,
        "BlockSize": 256,
        "MPerXDL": 32,
        "NPerXDL": 32,
        "MXdlPerWave": 2,
        "NXdlPerWave": 2,
        "BlkGemmPipeSched": "Intrawave",
        "BlkGemmPipelineVer": "v3",
    }
    shallow = {**known, "BlkGemmPipelineVer": "v1"}
    rows = ranked(
        RankingCandidate(name="v1", parameters=shallow, why_not="it was not built"),
        RankingCandidate(name="v3", parameters=known, why_not="it was not built"),
        RankingCandidate(name="broken", parameters=known, why_not="static assertion", fails=True),
    )
    assert [(row.name, row.place) for row in rows] == [("v3", 1), ("v1", 2), ("broken", None)]
    assert rows[0].because.startswith("matrix units alone would take ")
    assert rows[2].because == "static assertion"
