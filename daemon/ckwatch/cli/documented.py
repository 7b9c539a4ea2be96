"""The documentation of a diagnostic's code, for `ckwatch explain CODE` and assistants."""

from __future__ import annotations

from ckwatch.checks.rules.reference import rules_page
from ckwatch.model.documentation import explanation, page_of
from ckwatch.model.errors import CkwatchError
from ckwatch.system.documentation_files import read_page

PAGES_URL = "https://ckwatch.github.io/ckwatch/"


def documented(code: str) -> str:
    """Return the documentation of a diagnostic's code. Raises CkwatchError for one that it does not know."""
    found = explanation(code, page_text)
    if found:
        return found
    kind = code.partition("/")[0]
    if page_of(code) is None or kind == "rule":
        raise CkwatchError(f"no page explains '{code[:80]}'", "a compiler's codes (clang/…) have none")
    return f"{PAGES_URL}{str(page_of(code)).replace('.md', '/')}"


def documented_code(word: str) -> str | None:
    """Return the documentation of a word that is the code of a diagnostic, None for others, as names of units."""
    if "/" not in word or "@" in word:
        return None
    found = explanation(word, page_text) or ""
    return found if f"`{word}`" in found or f"`{word.partition('/')[2]}`" in found else None


def page_text(name: str) -> str | None:
    """Return the text of a page of the documentation by its name, that of the rules as they are; None without one."""
    return rules_page() if name.removesuffix(".md") == "rules" else read_page(name)
