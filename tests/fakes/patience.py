"""How long tests wait for what must come. Nothing else of a test may depend on how fast or how busy a machine is."""

from __future__ import annotations

PATIENCE_S = 400.0
"""Only a test that fails waits so long: less than pytest's own limit, and more than a machine needs on which dozens of
other processes are at work."""
