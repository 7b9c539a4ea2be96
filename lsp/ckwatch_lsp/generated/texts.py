"""What generated documents say. One that is not of the present input says so in its first line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ckwatch.wire.analysis import Isa, IsaFold, IsaLine
from ckwatch.wire.messages import RenderedText
from ckwatch_lsp.generated.links import SourceLinks

COMMENT = {"source": "//", "isa": ";"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A document. `below`: its first lines that are no part of what was generated. `source` is the text that `links`
    belong to: of an ISA document, the rendered source."""

    text: str
    stale: bool
    below: int = 0
    generation: int = -1
    links: SourceLinks | None = None
    lines: Mapping[int, IsaLine] = field(default_factory=dict)
    folds: Sequence[IsaFold] = ()
    mnemonics: Mapping[str, str] = field(default_factory=dict)
    has_lines: bool = False


def source_text(rendered: RenderedText, last: Text | None, generation: int) -> Text:
    """The rendered source; while the template has errors, the last one without, marked so."""
    if rendered.text is not None:
        links = SourceLinks(rendered.text, rendered.map or ())
        return Text(text=rendered.text, stale=False, links=links, generation=generation)
    error = next((one.message for one in rendered.diagnostics if one.severity == "error"), "the template has errors")
    return outdated("source", f"{error}: this is the last text without errors", last, f"not rendered: {error}")


def isa_text(isa: Isa, source: Text | None, generation: int) -> Text:
    """The disassembly, linked through the rendered source if that has the same text as when it was compiled."""
    below = 0 if isa.fresh else 1
    head = "" if isa.fresh else _line("isa", "this is the code of an earlier text")
    shifted = {line.line + below: line for line in isa.lines}
    folds = [fold.model_copy(update={"start": fold.start + below, "end": fold.end + below}) for fold in isa.folds]
    return Text(
        text=head + isa.text,
        stale=not isa.fresh,
        below=below,
        generation=generation,
        links=None if source is None else source.links,
        lines=shifted,
        folds=folds,
        mnemonics=isa.mnemonics,
        has_lines=isa.has_lines,
    )


def outdated(view: str, why: str, last: Text | None, otherwise: str) -> Text:
    """The last text with a first line that says why it is shown; if there is none, a line that says `otherwise`."""
    if last is None or last.below >= len(last.text.split("\n")):
        return Text(text=_line(view, otherwise), stale=True, below=1)
    body = last.text.split("\n", last.below)[last.below] if last.below else last.text
    lines = {number - last.below + 1: line for number, line in last.lines.items()}
    moved = 1 - last.below
    folds = [fold.model_copy(update={"start": fold.start + moved, "end": fold.end + moved}) for fold in last.folds]
    links = last.links
    if view == "source" and links is not None:
        links = links.moved(1)
    return Text(
        text=_line(view, why) + body,
        stale=True,
        below=1,
        generation=last.generation,
        links=links,
        lines=lines,
        folds=folds,
        mnemonics=last.mnemonics,
        has_lines=last.has_lines,
    )


def _line(view: str, text: str) -> str:
    return f"{COMMENT[view]} ckwatch: {' '.join(text.split())}\n"
