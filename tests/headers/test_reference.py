"""docs/toolchain.md lists the features."""

from __future__ import annotations

import re
from pathlib import Path

from ckwatch.headers.features import FEATURES


def test_every_feature_is_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs/toolchain.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \| `\w+`.* in `([\w.]+)` \|", page, re.MULTILINE)
    assert rows == [(name, one.header.rpartition("/")[2]) for name, one in FEATURES.items()]
