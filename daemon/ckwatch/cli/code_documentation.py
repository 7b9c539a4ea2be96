"""The documentation of diagnostics' codes, as `ckwatch explain CODE` prints it."""

from __future__ import annotations

import re

from ckwatch.model.documentation import explanation, page_of, page_url
from ckwatch.model.errors import CkwatchError
from ckwatch.model.unit_patterns import nearest_name
from ckwatch.system.documentation_files import read_page


def is_code(word: str) -> bool:
    """Return whether a word is a diagnostic's code (`rule/m-per-block`), and no unit or file."""
    return "/" in word and "@" not in word and page_of(word) is not None


def documented(code: str) -> str:
    """The documentation of a code: its part of a page, in Markdown. Raises CkwatchError for one without."""
    found = explanation(code, page_text)
    if found:
        return found
    url = page_url(code)
    if url is None or code.startswith("rule/"):
        hint = "a compiler's codes (clang/…) have none"
        if code.startswith("rule/"):
            rules = re.findall(r"^#+ `(.+)`$", page_text("rules") or "", re.MULTILINE)
            near = nearest_name(rules, code.removeprefix("rule/"))
            hint = f"did you mean 'rule/{near}'?" if near else "docs/rules.md has all rules"
        raise CkwatchError(f"no page explains '{code[:80]}'", hint)
    return url


def page_text(name: str) -> str | None:
    """The text of a page of the documentation; None where there is none of the name. Blocks."""
    if name.removesuffix(".md") != "rules":
        return read_page(name)
    from ckwatch.checks.rules.reference import rules_page  # loads every rule

    return rules_page()
