"""Causes that are looked for by their words; a unit's causes are words that say what happened."""

from __future__ import annotations

ARTIFACT_LOST = "the store no longer had what was built"
"""The cause of a build that nothing else asked for."""
