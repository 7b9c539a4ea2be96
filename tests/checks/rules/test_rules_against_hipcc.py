"""The stored answers of the real compiler, replayed against the rules.

`benchmarks/rules_against_hipcc.py` asked hipcc for both passes of sampled instances, half of them changed in one
parameter.
"""

from __future__ import annotations

import pytest

from benchmarks.mutated_instances import ARCHS, Example, stored_results
from benchmarks.rules_against_hipcc import failure, judge, load, sample_of, sampled, source, verdict
from cases.rule_instances import OPERATION
from ckwatch.checks.rules.instances import rendered_instances


def test_no_instance_that_compiles_is_rejected() -> None:
    false_rejections, _, _ = judge(load())
    assert false_rejections == []


def test_nine_failures_in_ten_are_caught() -> None:
    _, missed, failures = judge(sampled(load()))
    assert failures >= 20
    assert len(missed) <= 0.1 * failures, missed


def test_the_sample_is_as_large_and_as_mixed_as_promised() -> None:
    results = sampled(load())
    mutated = [result for result in results.values() if result["mutated"]]
    assert len(results) >= 80
    assert 40 <= len(mutated) <= 0.7 * len(results)
    assert not any(failure(result) for result in results.values() if not result["mutated"])


def test_an_instance_made_to_break_a_rule_fails_and_is_caught_by_that_rule() -> None:
    results = load()
    targeted = [name for name in results if name.startswith("targeted_")]
    assert len(targeted) >= 20
    for name in targeted:
        assert failure(results[name]), name
        assert name.removeprefix("targeted_") in {
            violation.rule for violation in verdict(sample_of(name, results[name]))
        }, name


def test_the_compiled_text_emits_what_was_checked() -> None:
    for name, result in load().items():
        sample = sample_of(name, result)
        (emitted,) = rendered_instances(source(sample))
        assert emitted.device_operation == OPERATION
        assert emitted.arguments == sample.arguments


@pytest.mark.parametrize("example", ["gemm", "batched_gemm", "convolution", "ck_tile"])
def test_mutants_of_the_examples(example: str) -> None:
    found = Example(example, ARCHS).judgement(stored_results(example))
    assert found.false_rejections == []
    assert found.mutants >= 40
    assert found.caught.total() >= 0.9 * found.failures
