"""The stored answers of the real compiler, replayed against the rules.

`benchmarks/rules_against_hipcc.py` asked hipcc for both passes of sampled instances, half of them changed in one
parameter.
"""

from __future__ import annotations

from benchmarks.rules_against_hipcc import failure, judge, load, sample_of, source
from ckwatch.rules import emitted_instances
from rule_instances import OPERATION


def test_no_instance_that_compiles_is_rejected() -> None:
    false_rejections, _, _ = judge(load())
    assert false_rejections == []


def test_nine_failures_in_ten_are_caught() -> None:
    _, missed, failures = judge(load())
    assert failures >= 20
    assert len(missed) <= 0.1 * failures, missed


def test_the_sample_is_as_large_and_as_mixed_as_promised() -> None:
    results = load()
    mutated = [result for result in results.values() if result["mutated"]]
    assert len(results) >= 80
    assert 0.4 <= len(mutated) / len(results) <= 0.6
    assert not any(failure(result) for result in results.values() if not result["mutated"])


def test_the_compiled_text_emits_what_was_checked() -> None:
    for name, result in load().items():
        sample = sample_of(name, result)
        (emitted,) = emitted_instances(source(sample))
        assert emitted.device_operation == OPERATION
        assert emitted.arguments == sample.arguments
