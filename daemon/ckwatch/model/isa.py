"""Lines and folds of a disassembly that is shown as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class IsaLine:
    """The source of line `line` (from zero) of a listing, as far as it is known.

    `rendered` is the line (from zero) of the unit's rendered text that the instruction came from, `span` the place in
    the template that it was called from, or the header's line when that is not known. `header` is the most telling line
    in a header, as PATH:LINE (from one) with an absolute path. `explanation` describes the instruction, when its
    operands change what its mnemonic does. What is not known is None or empty.
    """

    line: int
    rendered: int | None = None
    span: Span | None = None
    header: str = ""
    mnemonic: str = ""
    explanation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsaFold:
    """Lines `start` to `end` of a listing (from zero, both included) that fold into the first, which describes them.

    Folds are nested or disjoint. `main`: it is the main loop, or contains it.
    """

    start: int
    end: int
    kind: Literal["loop", "block", "function"]
    label: str
    main: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IsaView:
    """A kernel's listing as text with folds; `lines` has those whose source is known.

    `has_lines`: some instruction has a source line; `notes` say why not, and what else is missing. `mnemonics`
    describes each mnemonic that occurs, in one line.
    """

    text: str
    lines: tuple[IsaLine, ...] = ()
    folds: tuple[IsaFold, ...] = ()
    mnemonics: Mapping[str, str] = field(default_factory=dict)
    has_lines: bool = False
    notes: tuple[str, ...] = ()
