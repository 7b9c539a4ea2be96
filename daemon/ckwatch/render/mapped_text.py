"""Text that remembers where each of its characters came from.

`MappedText` is a `str` in every respect, so a template that inspects, compares or measures captured text behaves as it
does in plain Jinja2: the rendered text cannot differ. Beside the characters it carries a tree of nodes:

- a leaf says that the next `length` characters were copied from a place in a template (`position` is set) or printed
  by an expression (`position` is None);
- a wrap says that its children were written while a site (an include, a macro call, a loop's round) was open.

String operations that keep characters in order keep the tree; those that rearrange text align what they can by its
visible characters and mark the rest as approximate.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self, SupportsIndex

from ckwatch.model.source_map import Site, SiteKind
from ckwatch.model.text import Position, advance


class Leaf(NamedTuple):
    """Characters of one origin; `site` None stands for the innermost open site."""

    length: int
    site: Site | None
    position: Position | None
    exact: bool


class Wrap(NamedTuple):
    """Characters written while `site` was open; `iteration` is -1 outside loops."""

    length: int
    site: Site
    iteration: int
    children: tuple[Node, ...]


Node = Leaf | Wrap

_make_leaf = Leaf._make
"""Half the time of `Leaf(…)`; one is made for every value that a template prints."""


class MappedText(str):
    """A `str` with the tree of its origins; without nodes it is one approximate leaf."""

    __slots__ = ("_nodes",)
    _nodes: tuple[Node, ...]

    def __new__(cls, text: object = "", nodes: tuple[Node, ...] | None = None) -> Self:
        self = super().__new__(cls, text)
        if nodes is None:
            nodes = text._nodes if isinstance(text, MappedText) else _unknown(len(self))
        self._nodes = nodes
        return self

    def __str__(self) -> str:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (MappedText, (str.__str__(self), self._nodes))

    def __getitem__(self, key: SupportsIndex | slice) -> MappedText:
        text = str.__getitem__(self, key)
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step != 1:
                return MappedText(text)
            return MappedText(text, cut(self, start, max(start, stop)))
        start = int(key)
        start += len(self) if start < 0 else 0
        return MappedText(text, cut(self, start, start + 1))

    def __iter__(self) -> Iterator[str]:
        return (self[index] for index in range(len(self)))

    def __add__(self, other: str) -> MappedText:
        return MappedText(str.__add__(self, other), self._nodes + nodes_of(other))

    def __radd__(self, other: str) -> MappedText:
        return MappedText(str.__add__(other, self), nodes_of(other) + self._nodes)

    def __mul__(self, count: SupportsIndex) -> MappedText:
        return MappedText(str.__mul__(self, count), self._nodes * max(int(count), 0))

    __rmul__ = __mul__

    def strip(self, chars: str | None = None, /) -> MappedText:
        return self.lstrip(chars).rstrip(chars)

    def lstrip(self, chars: str | None = None, /) -> MappedText:
        return self[len(self) - len(str.lstrip(self, chars)) :]

    def rstrip(self, chars: str | None = None, /) -> MappedText:
        return self[: len(str.rstrip(self, chars))]

    def removeprefix(self, prefix: str, /) -> MappedText:
        return self[len(prefix) :] if self.startswith(prefix) else self  # noqa: FURB188  # it is being defined here

    def removesuffix(self, suffix: str, /) -> MappedText:
        return self[: len(self) - len(suffix)] if suffix and self.endswith(suffix) else self

    def splitlines(self, keepends: bool = False) -> list[str]:
        lines: list[str] = []
        at = 0
        for line in str.splitlines(self, keepends=True):
            kept = line if keepends else str.splitlines(line)[0]
            lines.append(self[at : at + len(kept)])
            at += len(line)
        return lines

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> MappedText:
        return replace(self, old, new, int(count))

    def join(self, parts: Iterable[str], /) -> MappedText:
        return join(self, list(parts))


def _unknown(length: int) -> tuple[Node, ...]:
    return (Leaf(length, None, None, exact=False),) if length else ()


def nodes_of(text: str) -> tuple[Node, ...]:
    """The origins of `text`; a plain string belongs to whatever site prints it, exactly."""
    if isinstance(text, MappedText):
        return text._nodes
    return (Leaf(len(text), None, None, exact=True),) if text else ()


def verbatim(text: str, site: Site) -> MappedText:
    """Template text copied from the start of `site`."""
    return MappedText(text, (Leaf(len(text), site, site.span.start, exact=True),) if text else ())


def printed(value: object, site: Site) -> MappedText:
    """What an expression at `site` printed: its own text, or mapped text with the site added to the chain.

    Raises what `str(value)` raises, such as `UndefinedError`.
    """
    text = value if type(value) is str else str(value)
    if type(text) is MappedText:
        for node in text._nodes:
            # A leaf without a site says nothing that this site does not say.
            if isinstance(node, Wrap) or node.site is not None or not node.exact:
                return MappedText(text, (Wrap(len(text), site, -1, text._nodes),))
    mapped = str.__new__(MappedText, text)
    mapped._nodes = (_make_leaf((len(text), site, None, True)),) if text else ()
    return mapped


def cut(text: MappedText, start: int, stop: int) -> tuple[Node, ...]:
    """The nodes of `text[start:stop]`."""
    return _cut(text._nodes, str.__str__(text), 0, start, stop)


def _cut(nodes: Sequence[Node], text: str, at: int, start: int, stop: int) -> tuple[Node, ...]:
    kept: list[Node] = []
    for node in nodes:
        end = at + node.length
        low, high = max(at, start), min(end, stop)
        if low < high:
            if low == at and high == end:
                kept.append(node)
            elif isinstance(node, Wrap):
                kept.append(node._replace(length=high - low, children=_cut(node.children, text, at, start, stop)))
            elif node.position is None:
                kept.append(node._replace(length=high - low))
            else:
                kept.append(node._replace(length=high - low, position=advance(node.position, text[at:low])))
        at = end
        if at >= stop:
            break
    return tuple(kept)


def replace(text: MappedText, old: str, new: str, count: int = -1) -> MappedText:
    """`str.replace`; the replacement belongs to the site of the text it replaces."""
    result = str.replace(text, old, new, count)
    if not old:
        return aligned(result, text)
    nodes: list[Node] = []
    at = 0
    while count != 0:
        found = text.find(old, at)
        if found < 0:
            break
        nodes.extend(cut(text, at, found))
        hit = cut(text, found, found + len(old))
        if isinstance(new, MappedText):
            nodes.extend(new._nodes)
        elif new:
            nodes.append(_relabel(hit[0], len(new)))
        at = found + len(old)
        count -= 1
    nodes.extend(cut(text, at, len(text)))
    return MappedText(result, tuple(nodes))


def _relabel(node: Node, length: int) -> Node:
    """A node like `node`, `length` characters long, that no longer copies character by character."""
    if isinstance(node, Wrap):
        return node._replace(length=length, children=(_relabel(node.children[0], length),))
    return node._replace(length=length, position=None)


def join(separator: str, parts: Sequence[str]) -> MappedText:
    """`separator.join(parts)` with the origins of all parts."""
    nodes: list[Node] = []
    between = nodes_of(separator)
    for index, part in enumerate(parts):
        if index:
            nodes.extend(between)
        nodes.extend(nodes_of(part))
    return MappedText(str.join(separator, parts), tuple(nodes))


def aligned(result: str, source: MappedText) -> MappedText:
    """Origins for `result`, made of `source` by something that is not known to keep order.

    Where only the case differs, positions correspond. Where both have the same visible characters, these correspond
    one to one and new white space is the printing site's. Otherwise the whole is approximate.
    """
    if isinstance(result, MappedText):
        return result
    plain = str.__str__(source)
    if len(result) == len(plain) and result.lower() == plain.lower():
        return MappedText(result, source._nodes)
    if "".join(plain.split()) != "".join(result.split()):
        return MappedText(result)
    source_at = [index for index, char in enumerate(plain) if not char.isspace()]
    result_at = [index for index, char in enumerate(result) if not char.isspace()]
    nodes: list[Node] = []
    at = 0
    for where, index in zip(result_at, source_at, strict=True):
        if where > at:
            nodes.append(Leaf(where - at, None, None, exact=True))
        nodes.extend(cut(source, index, index + 1))
        at = where + 1
    if at < len(result):
        nodes.append(Leaf(len(result) - at, None, None, exact=True))
    return MappedText(result, tuple(nodes))


def _aligning_method(name: str) -> Callable[..., Any]:
    plain = getattr(str, name)

    def method(self: MappedText, *args: Any, **kwargs: Any) -> Any:
        result = plain(self, *args, **kwargs)
        if isinstance(result, str):
            return aligned(result, self)
        if isinstance(result, list | tuple):
            return type(result)(MappedText(part) if part else part for part in result)
        return result

    method.__name__ = name
    return method


for _name in (
    *("upper", "lower", "title", "capitalize", "swapcase", "casefold", "center", "ljust", "rjust", "zfill"),
    *("expandtabs", "translate", "format", "format_map", "partition", "rpartition", "split", "rsplit", "__mod__"),
):
    setattr(MappedText, _name, _aligning_method(_name))


class SiteMark(str):
    """An empty string in the stream of pieces that opens or closes a site, or begins a loop's next round."""

    __slots__ = ("opens", "site")
    opens: bool
    site: Site

    def __new__(cls, site: Site, *, opens: bool) -> Self:
        self = super().__new__(cls)
        self.site = site
        self.opens = opens
        return self


def concat(
    pieces: Iterable[str], limit: int = sys.maxsize, too_long: Callable[[int], None] | None = None
) -> MappedText:
    """Join a stream of pieces and marks into one text.

    Beyond `limit` characters `too_long` is called with the length so far, to raise; the error is raised where the
    stream stands, so that its traceback shows the template's place.

    A loop's mark is given once a round and closes the previous round; a loop without rounds leaves only its closing
    mark, which closes nothing. Marks that were never closed (`extends`) are closed by the end.
    """
    out: list[str] = []
    nodes: list[Node] = []
    open_sites: list[tuple[list[Node], Site, int, int]] = []
    length = 0
    for piece in pieces:
        kind = type(piece)
        if kind is MappedText:
            size = len(piece)
            if not size:
                continue
            length += size
            nodes += piece._nodes  # type: ignore[attr-defined]  # its type was asked for above
        elif kind is SiteMark:
            site: Site = piece.site  # type: ignore[attr-defined]
            iteration = -1
            if open_sites and open_sites[-1][1] is site:
                closes = not piece.opens  # type: ignore[attr-defined]
                if closes or site.kind is SiteKind.LOOP:
                    iteration = open_sites[-1][2]
                    nodes = _close(open_sites, nodes, length)
                if closes:
                    continue
            elif not piece.opens:  # type: ignore[attr-defined]
                continue
            if site.kind is SiteKind.LOOP:
                iteration += 1
            open_sites.append((nodes, site, iteration, length))
            nodes = []
            continue
        elif piece:
            length += len(piece)
            nodes += nodes_of(piece)
        else:
            continue
        out.append(piece)
        if length > limit and too_long is not None:
            try:
                too_long(length)
            except Exception as error:
                if isinstance(pieces, Generator):
                    pieces.throw(error)
                raise
    while open_sites:
        nodes = _close(open_sites, nodes, length)
    return MappedText("".join(out), tuple(nodes))


def _close(open_sites: list[tuple[list[Node], Site, int, int]], nodes: list[Node], length: int) -> list[Node]:
    """Wrap `nodes`, written since the innermost site was opened; returns the nodes of the site around it."""
    outer, site, iteration, start = open_sites.pop()
    if nodes:
        outer.append(Wrap(length - start, site, iteration, tuple(nodes)))
    return outer
