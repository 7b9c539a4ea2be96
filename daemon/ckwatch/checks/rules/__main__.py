"""Prints `docs/rules.md`."""

from ckwatch.checks.rules.reference import rules_page

print(rules_page(), end="")
