"""Places of a kernel file that `ckwatch import` has left open: `"?"` on a line with the comment `# ckwatch: say …`."""

from __future__ import annotations

import re

from ckwatch.model.text import Position, Span
from ckwatch.workspace.problems import Problems

_OPEN = re.compile(r"""^[^#\n"']*?(?P<value>\[?"\?"\]?)[^"'\n]*# ckwatch: (?P<text>say [^\r\n]*)""", re.MULTILINE)


def report_open_places(problems: Problems) -> bool:
    """Report each open place instead of what else is wrong with its value; True where there is one."""
    text = problems.document.text
    places = {text.count("\n", 0, found.start("value")): found for found in _OPEN.finditer(text)}
    if not places:
        return False
    others = [one for one in problems.found if one.span.start.line not in places]
    problems.errors_found -= len(problems.found) - len(others)
    problems.found[:] = others
    for line, found in places.items():
        column = found.start("value") - found.start()
        span = Span(problems.document.path, Position(line, column), Position(line, column + len(found["value"])))
        problems.add("open-place", f"replace `{found['value']}`: {found['text']}", span)
    return True
