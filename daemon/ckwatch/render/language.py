"""A template's language, from its file name."""

from __future__ import annotations

LANGUAGES = {".hip.j2": "hip", ".cpp.j2": "cpp", ".cu.j2": "cu"}
"""Suffix of a template → language that it renders to."""


def language_of(template: str) -> str:
    """The language of `template`. Raises ValueError for a name with no known suffix."""
    for suffix, language in LANGUAGES.items():
        if template.endswith(suffix):
            return language
    raise ValueError(f"'{template}' ends in none of {', '.join(LANGUAGES)}")
