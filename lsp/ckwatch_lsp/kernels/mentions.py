"""Where the templates of a kernel file mention a parameter first."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from ckwatch_lsp.jinja.index import File
from ckwatch_lsp.jinja.tags import Role
from ckwatch_lsp.text import Range

FILES_KEPT = 64


@lru_cache(maxsize=FILES_KEPT)
def _file(path: str, text: str) -> File:
    return File(path, text)


def first_mention(texts: Iterable[tuple[str, str]], name: str) -> tuple[str, Range] | None:
    """The first place in templates, given as paths and texts in their order, that reads the parameter `name`."""
    for path, text in texts:
        if name not in text:
            continue
        file = _file(path, text)
        for mention in file.names.by_name.get(name, ()):
            if mention.role is Role.PARAMETER or (mention.role is Role.LOAD and mention.symbol is None):
                return path, file.template.lines.range(mention.start, mention.end)
    return None
