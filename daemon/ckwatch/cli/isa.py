"""A kernel's instructions on a terminal: the main loop open, the rest folded."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ckwatch.wire.analysis import Isa

Line = tuple[str, str]
"""A line and its style."""


def isa_lines(found: Isa, *, whole: bool = False) -> list[Line]:
    """The listing's lines, those of closed folds left out: all but the main loop's, where there is one.

    `whole`: nothing is closed.
    """
    shut = [] if whole or not any(fold.main for fold in found.folds) else found.folds
    closed = {fold.start: fold.end for fold in shut if fold.kind != "function" and not fold.main}
    texts = found.text.removesuffix("\n").split("\n")
    title = f"{found.unit}, artifact {found.artifact_key[:12]}" + ("" if found.fresh else ", of an earlier input")
    lines: list[Line] = [(title, "bold")]
    lines += [(f"  {note}", "yellow") for note in found.notes if note not in found.text]
    if len(found.kernels) > 1:
        lines.append((f"  one of {len(found.kernels)} kernels; --kernel NAME shows another:", ""))
        lines += [(f"    {name}", "") for name in found.kernels if name != found.kernel]
    number = 0
    while number < len(texts):
        last = closed.get(number)
        text = texts[number] if last is None else texts[number].replace("▾", "▸", 1)
        lines.append((text, "dim" if text.lstrip().startswith(";") else ""))
        number = number + 1 if last is None else last + 1
    return lines
