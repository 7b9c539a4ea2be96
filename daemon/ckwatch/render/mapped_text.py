"""Text that remembers where each of its characters came from.

`MappedText` is a `str` in every respect, so a template that inspects, compares or measures captured text behaves as it
does in plain Jinja2: the rendered text cannot differ. Beside the characters it refers to an *origin*, in which it
begins at some character:

- a `Recording` is what a piece of a template wrote: constants of the generated code and printed values, in order;
- a `Sequence` is made of parts of other origins, and so is a `Joined`, of many;
- a `Realignment` is text made of another by something that may have moved it;
- `UNKNOWN` is all the rest.

An operation notes what it did and looks at no origin, so it costs what it costs on a plain `str`, whatever the text is
made of; `ckwatch.render.packed_map` works out the map when somebody asks for it. Single characters (`text[i]`, a loop
over a text) are plain strings: they belong to what prints them.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import accumulate, chain, islice, repeat
from typing import Any, Self, SupportsIndex

from ckwatch.model.source_map import Site

Part = tuple["Origin | None", int, int]
"""(origin, start, length): characters of an origin; those of None were made by whatever prints them.

With a negative length the characters all stand for the one at `start`, as those that replace something do.
"""

Event = tuple[Any, ...]
"""A single write of a template: a piece, and the values and pieces that follow it. The piece knows which (`refs`)."""

EVENTS_PER_CHECK = 512
"""Events that are taken from a stream before its length is looked at."""

NUMBERS = "i"
"""The type code of arrays of numbers."""


class Piece(str):
    """A constant of the generated code: text, and what happens before and after it.

    The sites `closes` and `opens` are closed and opened before the text; to open a loop's site again begins its next
    round. The text is that of `site`, copied from it if `copied`. The value that follows was printed by `prints`.
    `line_ends` is filled in where it is needed. In the first piece of an event `refs` has the number of each piece of
    the event, -1 for a value, as the bytes of an array of `NUMBERS`.
    """

    __slots__ = ("closes", "copied", "line_ends", "opens", "prints", "refs", "site")
    site: Site | None
    copied: bool
    line_ends: tuple[int, ...] | None
    opens: Site | None
    closes: Site | None
    prints: Site | None
    refs: bytes

    def __new__(
        cls,
        text: str = "",
        site: Site | None = None,
        *,
        copied: bool = False,
        opens: Site | None = None,
        closes: Site | None = None,
        prints: Site | None = None,
    ) -> Self:
        self = super().__new__(cls, text)
        self.site = site
        self.copied = copied
        self.line_ends = None
        self.opens = opens
        self.closes = closes
        self.prints = prints
        return self


class Unknown:
    """The origin of text of which only the expression that printed it is known."""

    __slots__ = ()


UNKNOWN = Unknown()


class Recording:
    """The writes of a template without their text: `refs` of each event, and the length of each piece and value.

    Values that are mapped text have their index in `indices`, their origin and their start in it in `inner` and
    `starts`. `pieces` has pieces by number.
    """

    __slots__ = ("indices", "inner", "lengths", "pieces", "refs", "starts")

    def __init__(self, pieces: list[Piece], refs: list[bytes], lengths: list[int]) -> None:
        self.pieces = pieces
        self.refs = refs
        self.lengths = lengths
        self.indices: list[int] = []
        self.inner: list[Origin] = []
        self.starts: list[int] = []


class Sequence:
    """Parts of origins, one behind the other."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts


class Joined:
    """Many parts of origins with `separator` between them; part `n` is the number `n` of each list."""

    __slots__ = ("lengths", "origins", "separator", "starts")

    def __init__(self, separator: Part, texts: list[str], *, all_mapped: bool) -> None:
        self.separator = separator
        self.origins: list[Any]
        if all_mapped:
            self.origins = [text._origin for text in texts]  # type: ignore[attr-defined]  # it is mapped text
            self.starts = [text._start for text in texts]  # type: ignore[attr-defined]
        else:
            self.origins = [text._origin if type(text) is MappedText else None for text in texts]
            self.starts = [text._start if type(text) is MappedText else 0 for text in texts]
        self.lengths = list(map(len, texts))


class Realignment:
    """`result`, made of the text `source`, which begins at `start` of `origin`.

    Where both have the same visible characters, these correspond one to one and new white space is the printing
    site's. Otherwise nothing is known, unless `replaced` tells how it was made: the text that was replaced, the length
    of what stands there now, and how often at most (-1: always).
    """

    __slots__ = ("origin", "replaced", "result", "source", "start")

    def __init__(
        self, origin: Origin, start: int, source: str, result: str, replaced: tuple[str, int, int] | None = None
    ) -> None:
        self.origin = origin
        self.start = start
        self.source = source
        self.result = result
        self.replaced = replaced


Origin = Recording | Sequence | Joined | Realignment | Unknown


class MappedText(str):
    """A `str` that is the characters from `_start` of `_origin`; of an unknown one where none is given."""

    __slots__ = ("_origin", "_start")
    _origin: Origin
    _start: int

    def __new__(cls, text: object = "", origin: Origin = UNKNOWN) -> Self:
        self = super().__new__(cls, text)
        self._origin, self._start = (text._origin, text._start) if type(text) is MappedText else (origin, 0)
        return self

    def __str__(self) -> str:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (str, (str.__str__(self),))

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        text = str.__getitem__(self, key)
        if type(key) is not slice:
            return text
        start, _, step = key.indices(len(self))
        return self._part(text, start) if step == 1 else _of(text, UNKNOWN)

    def __add__(self, other: str) -> MappedText:
        return _of(str.__add__(self, other), Sequence([part_of(self), part_of(other)]))

    def __radd__(self, other: str) -> MappedText:
        return _of(str.__add__(other, self), Sequence([part_of(other), part_of(self)]))

    def __mul__(self, count: SupportsIndex) -> MappedText:
        return MappedText(str.__mul__(self, count), Sequence([part_of(self)] * max(int(count), 0)))

    __rmul__ = __mul__

    def strip(self, chars: str | None = None, /) -> MappedText:
        return self._part(str.strip(self, chars), len(self) - len(str.lstrip(self, chars)))

    def lstrip(self, chars: str | None = None, /) -> MappedText:
        text = str.lstrip(self, chars)
        return self._part(text, len(self) - len(text))

    def rstrip(self, chars: str | None = None, /) -> MappedText:
        return self._part(str.rstrip(self, chars), 0)

    def removeprefix(self, prefix: str, /) -> MappedText:
        text = str.removeprefix(self, prefix)
        return self._part(text, len(self) - len(text))

    def removesuffix(self, suffix: str, /) -> MappedText:
        return self._part(str.removesuffix(self, suffix), 0)

    def splitlines(self, keepends: bool = False) -> list[str]:
        lines = str.splitlines(self, keepends)
        if not keepends and "\r\n" in self:
            widths = map(len, str.splitlines(self, keepends=True))
            return self._parts_at(lines, list(accumulate(widths, initial=0)))
        return self._parts(lines, 0 if keepends else 1)

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        return self._separated(str.split(self, sep, maxsplit), sep)

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        return self._separated(str.rsplit(self, sep, maxsplit), sep)

    def partition(self, sep: str, /) -> tuple[str, str, str]:
        first, middle, last = self._separated(list(str.partition(self, sep)), "")
        return first, middle, last

    def rpartition(self, sep: str, /) -> tuple[str, str, str]:
        first, middle, last = self._separated(list(str.rpartition(self, sep)), "")
        return first, middle, last

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> MappedText:
        return replace(self, old, new, int(count))

    def join(self, parts: Iterable[str], /) -> str:
        return join(self, list(parts))

    def _part(self, text: str, start: int) -> MappedText:
        """`text`, which begins at character `start`."""
        part = _new(MappedText, text)
        part._origin = self._origin
        part._start = self._start + start
        return part

    def _parts(self, texts: list[str], gap: int, start: int = 0) -> list[str]:
        """`texts`, which stand one behind the other from character `start` on, `gap` characters between them."""
        origin, at = self._origin, self._start + start
        parts = list(map(_new, repeat(MappedText), texts))
        for part in parts:
            part._origin = origin
            part._start = at
            at += len(part) + gap
        return parts  # type: ignore[return-value]  # a list of strings

    def _parts_at(self, texts: list[str], starts: list[int]) -> list[str]:
        """`texts`, each of which begins at its place of `starts`."""
        return [self._part(text, start) for text, start in zip(texts, starts, strict=False)]

    def _separated(self, texts: list[str], separator: str | None) -> list[str]:
        """`texts`, which stand one behind the other in this one; white space separates them if `separator` is None."""
        if separator is not None:
            return self._parts(texts, len(separator))
        whole = str.__str__(self)
        visible = whole.strip()
        if len(visible) == len(" ".join(texts)):
            return self._parts(texts, 1, whole.find(visible))
        starts: list[int] = []
        at = 0
        for text in texts:
            at = whole.find(text, at)
            starts.append(at)
            at += len(text)
        return self._parts_at(texts, starts)


_new = str.__new__

FEW = 3
"""Parts that are quicker to look at one by one."""


def _of(text: str, origin: Origin) -> MappedText:
    """`text`, which is all of `origin`."""
    mapped = _new(MappedText, text)
    mapped._origin = origin
    mapped._start = 0
    return mapped


def part_of(text: str) -> Part:
    """All of `text`."""
    if type(text) is MappedText:
        return (text._origin, text._start, len(text))
    return (None, 0, len(text))


def replace(text: MappedText, old: str, new: str, count: int = -1) -> MappedText:
    """`str.replace`; the replacement belongs to the site of the text it replaces."""
    result = str.replace(text, old, new, count)
    if not old:
        return aligned(result, text)
    if type(new) is not MappedText:
        how = (old, len(new), count)
        return MappedText(result, Realignment(text._origin, text._start, str.__str__(text), result, how))
    inserted = part_of(new)
    parts: list[Part] = []
    for start, length in kept_parts(text, old, count):
        parts += ((text._origin, text._start + start, length), inserted)
    return MappedText(result, Sequence(parts[:-1]))


def kept_parts(text: str, old: str, count: int) -> Iterator[tuple[int, int]]:
    """(start, length) of what `text.replace(old, …, count)` leaves, between the places where it replaces."""
    at = 0
    for piece in str.split(text, old, count):
        yield at, len(piece)
        at += len(piece) + len(old)


def join(separator: str, parts: list[str]) -> str:
    """`separator.join(parts)` with the origins of all parts; a plain `str` where none has one."""
    text = str.join(separator, parts)
    kinds = set(map(type, parts))
    if type(separator) is not MappedText and MappedText not in kinds:
        return text
    if len(parts) <= FEW:
        found = [part_of(part) for part in parts]
        if separator:
            between = part_of(separator)
            found = [one for part in found for one in (part, between)][:-1]
        return _of(text, Sequence(found))
    return _of(text, Joined(part_of(separator), parts, all_mapped=len(kinds) == 1 and MappedText in kinds))


def aligned(result: str, source: MappedText) -> MappedText:
    """Origins for `result`, made of `source` by something that is not known to keep order (`Realignment`).

    Where only the case differs, positions correspond.
    """
    if type(result) is MappedText:
        return result
    plain = str.__str__(source)
    if len(result) == len(plain) and result.lower() == plain.lower():
        return source._part(result, 0)
    return MappedText(result, Realignment(source._origin, source._start, plain, result))


def _aligning_method(name: str) -> Callable[..., Any]:
    plain = getattr(str, name)

    def method(self: MappedText, *args: Any, **kwargs: Any) -> Any:
        result = plain(self, *args, **kwargs)
        return aligned(result, self) if isinstance(result, str) else result

    method.__name__ = name
    return method


def _case_method(name: str) -> Callable[..., Any]:
    plain = getattr(str, name)

    def method(self: MappedText, *args: Any, **kwargs: Any) -> Any:
        # A character becomes one or more, so that positions correspond where the length is the same.
        result = plain(self, *args, **kwargs)
        return self._part(result, 0) if len(result) == len(self) else aligned(result, self)

    method.__name__ = name
    return method


for _name in ("center", "ljust", "rjust", "zfill", "expandtabs", "translate", "format", "format_map", "__mod__"):
    setattr(MappedText, _name, _aligning_method(_name))
for _name in ("upper", "lower", "title", "capitalize", "swapcase", "casefold"):
    setattr(MappedText, _name, _case_method(_name))


class Recorder:
    """Numbers the constants of generated code, and makes one text of a stream of events."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []

    def __len__(self) -> int:
        return len(self._pieces)

    def keep(self, first: Piece, *following: Piece | None) -> Piece:
        """Know `first` from now on as the beginning of an event; in what follows None stands for a value."""
        refs = array(NUMBERS)
        for piece in (first, *following):
            refs.append(-1 if piece is None else len(self._pieces))
            if piece is not None:
                self._pieces.append(piece)
        first.refs = refs.tobytes()
        return first

    def concat(
        self,
        stream: Iterable[Event],
        limit: int = sys.maxsize,
        too_long: Callable[[int], None] | None = None,
        mapped: list[Any] | None = None,
    ) -> MappedText:
        """Join a stream into one text. If `mapped` is a list and stays empty, no value is mapped text.

        Beyond `limit` characters `too_long` is called with the length so far, to raise; the error is raised where the
        stream stands, so that its traceback shows the template's place.
        """
        if isinstance(stream, list):
            events = stream
            items: Any = events[0] if len(events) == 1 else list(chain.from_iterable(events))
            text = "".join(items)
            if len(text) > limit and too_long is not None:
                too_long(len(text))
        else:
            events, items, text = _taken(stream, limit, too_long)
        recording = Recording(self._pieces, [event[0].refs for event in events], list(map(len, items)))
        if mapped != [] and MappedText in map(type, items):
            indices = [index for index, value in enumerate(items) if type(value) is MappedText and value]
            values: list[Any] = [items[index] for index in indices]
            recording.indices = indices
            recording.inner = [value._origin for value in values]
            recording.starts = [value._start for value in values]
        return _of(text, recording)


def _taken(
    stream: Iterable[Event], limit: int, too_long: Callable[[int], None] | None
) -> tuple[list[Event], list[str], str]:
    """The events of a stream, all pieces and values in them, and their text."""
    events: list[Event] = []
    items: list[str] = []
    texts: list[str] = []
    length = 0
    following = iter(stream)
    while more := list(islice(following, EVENTS_PER_CHECK)):
        events += more
        written = list(chain.from_iterable(more))
        items += written
        texts.append("".join(written))
        length += len(texts[-1])
        if length > limit and too_long is not None:
            try:
                too_long(length)
            except Exception as error:
                if isinstance(following, Generator):
                    following.throw(error)
                raise
    return events, items, "".join(texts)
