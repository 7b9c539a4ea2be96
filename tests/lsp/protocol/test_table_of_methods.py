"""The table of LSP 3.18 in the documentation: every method, with a test that there is, or the reason why not."""

from __future__ import annotations

import re
from pathlib import Path

from lsprotocol import types

ROOT = Path(__file__).parents[3]
_ROW = re.compile(r"^\| (?P<methods>`.*?`.*?|[^|`]+) \| (?P<how>.*) \|$", re.MULTILINE)


def rows() -> dict[str, str]:
    """Tests or reasons by method."""
    text = (ROOT / "docs/language-server.md").read_text().partition("## LSP 3.18")[2]
    found = {}
    for row in _ROW.finditer(text):
        namespace = ""
        for method in re.findall(r"`([^`]+)`", row["methods"]) or [row["methods"]]:
            namespace = method.rpartition("/")[0] if "/" in method else namespace
            found[method if "/" in method or not namespace else f"{namespace}/{method}"] = row["how"]
    return found


def test_every_method_is_there_with_a_test_or_a_reason() -> None:
    known = rows()
    assert set(types.METHOD_TO_TYPES) - known.keys() == set()
    for method, how in known.items():
        if not how.startswith("–:"):
            file, _, name = how.strip("`").partition("::")
            assert f"def {name}(" in (ROOT / "tests/lsp" / file).read_text(), (method, how)
        else:
            assert len(how) > 10, method
