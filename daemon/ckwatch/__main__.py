"""`python -m ckwatch`."""

from ckwatch.cli import run

run()
