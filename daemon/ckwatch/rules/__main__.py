"""Prints `docs/rules.md`."""

from ckwatch.rules.reference import page

print(page(), end="")
