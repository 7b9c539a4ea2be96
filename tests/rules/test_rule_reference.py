"""The rules as documented, and what a parameter takes part in."""

from __future__ import annotations

from pathlib import Path

from ckwatch.rules import OPERATIONS, rules_of
from ckwatch.rules.reference import page
from rule_instances import OPERATION


def test_the_page_is_that_of_the_rules() -> None:
    path = Path(__file__).parents[2] / "docs" / "rules.md"
    assert path.read_text() == page(), "write it again: python -m ckwatch.rules > docs/rules.md"


def test_rules_of_a_parameter_reach_through_definitions() -> None:
    slugs = {rule.slug for rule in rules_of(OPERATION, "MXdlPerWave")}
    assert {"m-per-block", "block-size", "lds", "c-cluster-m"} <= slugs
    assert "b-cluster-threads" not in slugs
    assert rules_of(OPERATION, "Nobody") == ()
    assert rules_of("Nothing", "MPerBlock") == ()


def test_tables_are_sound() -> None:
    for operation in OPERATIONS.values():
        known = {*operation.parameters, *operation.definitions, "target", "Invoker"}
        seen: set[str] = set()
        for definition in operation.definitions.values():
            assert set(definition.uses) <= known, definition.name
        for rule in operation.rules:
            assert {*rule.expression.names, *rule.guard.names} <= known, rule.slug
            assert set(rule.blame) <= set(operation.parameters_of(rule.names)), rule.slug
            assert set(rule.after) <= seen, rule.slug
            assert rule.slug not in seen
            seen.add(rule.slug)
