"""Combinations that sweeps skip: one message that counts, not a failing unit each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ckwatch.checks.skipped import skip_summaries, skipped_text
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.kernels import SweepOrigin, Unit
from helpers.units import place, unit

M = "MPerBlock % (MPerXdl * MXdlPerWave) == 0"


SIX = ", ".join(f"1 × rule/{at}" for at in range(6))


def swept(name: str, combinations: int, arch: str = "gfx942", archs: tuple[str, ...] = ("gfx942",)) -> Unit:
    made = unit("a.hip.j2", MPerBlock=128)
    instance = replace(made.instance, name=name, sweep=SweepOrigin("s", combinations))
    return Unit(replace(made.kernel, archs=archs), instance, arch)


def refusal(code: str, line: int = 10) -> Diagnostic:
    return Diagnostic(Severity.INFORMATION, Source.RULE, code, f"broken: {code}", place(line))


@pytest.mark.parametrize(
    ("total", "codes", "expected"),
    [
        (
            48,
            ["rule/m-per-block"] * 8 + ["rule/future"] * 4,
            f"12 of 48 combinations are skipped, which break rules: 8 × {M}, 4 × rule/future",
        ),
        (2, ["rule/m-per-block"] * 2, f"all 2 combinations break rules: 2 × {M}"),
        (
            99,
            [f"rule/{at}" for at in range(9)],
            f"9 of 99 combinations are skipped, which break rules: {SIX}, 3 × other rules",
        ),
    ],
)
def test_how_many_and_why(total: int, codes: Sequence[str], expected: str) -> None:
    assert skipped_text(total, [(code, f"Broken. {M}: 1") for code in codes]) == expected


def test_a_condition_is_that_of_the_operation() -> None:
    broken = [("rule/m-per-block", "Whole waves. MPerBlock % (MPerWmma * MRepeat) == 0: 64 % 48 = 16")]
    assert skipped_text(2, broken).endswith("1 × MPerBlock % (MPerWmma * MRepeat) == 0")


def test_the_first_rule_that_a_combination_breaks_counts() -> None:
    both = (refusal("rule/m-per-block"), refusal("rule/n-per-block"))
    elsewhere = (refusal("rule/m-per-block", 11),)
    (found,) = skip_summaries([(swept("s_1", 3), both), (swept("s_2", 3), elsewhere)])
    assert found.severity is Severity.INFORMATION
    assert found.message == f"2 of 3 combinations are skipped, which break rules: 2 × {M}"
    assert [one.message for one in found.related] == ["s_1: broken: rule/m-per-block"]
    assert found.span == swept("s_1", 3).instance.span


def test_it_stands_at_the_value_that_all_skipped_combinations_have() -> None:
    (found,) = skip_summaries((swept(name, 3), (refusal("rule/m-per-block"),)) for name in ("s_1", "s_2"))
    assert (found.severity, found.span) == (Severity.INFORMATION, place(10))


def test_a_sweep_of_which_nothing_is_left_is_an_error() -> None:
    units = [(swept("s_1", 2), (refusal("rule/m-per-block"),)), (swept("s_2", 2), (refusal("rule/m-per-block", 11),))]
    (found,) = skip_summaries(units)
    assert (found.severity, found.code) == (Severity.ERROR, "kernel-file/skipped-combinations")
    assert found.message == f"sweep `s` makes nothing that can be compiled: all 2 combinations break rules: 2 × {M}"
    assert found.span == units[0][0].instance.span


def test_one_value_because_of_which_nothing_is_left_is_the_error() -> None:
    (found,) = skip_summaries([(swept("s_1", 1), (refusal("rule/m-per-block"),))])
    assert (found.severity, found.code, found.span) == (Severity.ERROR, "rule/m-per-block", place(10))
    assert found.message == "broken: rule/m-per-block"
    reason = f"sweep `s` makes nothing that can be compiled: the only combination breaks rules: 1 × {M}"
    assert reason in [one.message for one in found.related]


def test_a_sweep_only_repeats_the_errors_of_an_instance() -> None:
    error = replace(refusal("rule/m-per-block"), severity=Severity.ERROR)
    units = [(swept("s_1", 1), (refusal("rule/m-per-block"),))]
    same_value, same_rule = replace(error, code="rule/lds"), replace(error, span=place(11))
    assert [skip_summaries(units, [one]) for one in (same_value, same_rule)] == [(), ()]
    assert skip_summaries(units, [replace(same_value, span=place(11))])
    assert skip_summaries(units, [replace(error, severity=Severity.WARNING)])


@pytest.mark.parametrize(
    ("refused", "expected"),
    [
        ({"gfx942": ["s_1"], "gfx90a": ["s_1"]}, ["1 of 3"]),
        ({"gfx942": ["s_1"], "gfx90a": ["s_1", "s_2"]}, ["gfx942: 1 of 3", "gfx90a: 2 of 3"]),
        ({"gfx90a": ["s_1"]}, ["gfx90a: 1 of 3"]),
    ],
)
def test_archs_that_differ_are_named(refused: dict[str, list[str]], expected: list[str]) -> None:
    units = [swept(name, 3, arch, ("gfx942", "gfx90a")) for arch, names in refused.items() for name in names]
    found = skip_summaries((one, (refusal("rule/m-per-block"),)) for one in units)
    assert [one.message.partition(" comb")[0] for one in found] == expected
