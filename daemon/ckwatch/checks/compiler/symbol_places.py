"""Finds the place of a linker's, an assembler's or a back end's message: the symbol that it names, as it is used or
defined in the user's text, at the line of the line tables where there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ckwatch.checks.clang_output import TRANSIENT_KINDS, ClangMessage, MessageKind
from ckwatch.checks.compiler.locate import way_of
from ckwatch.checks.compiler.sources import Sources
from ckwatch.checks.linker_symbols import (
    INLINE_ASSEMBLY,
    NamedSymbol,
    NamingMacro,
    SymbolProblem,
    assembly,
    declaration,
    macros_naming,
    symbol_of,
    uses,
)
from ckwatch.checks.places import SourcePlace
from ckwatch.model.diagnostics import Related
from ckwatch.model.text import LineIndex, Position, Span

_AT_END = re.compile(r"expected a \"\}\"|unterminated|the #endif for this directive is missing|missing closing")
_INTRINSIC = re.compile(r"Cannot select: intrinsic %(?P<name>llvm\.[\w.]+)")
_DECLARED = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*\([^;{}]*$")


def symbol_place(message: ClangMessage, sources: Sources) -> SourcePlace | None:
    """Return the place where the symbol that a linker or assembler names is used, or the kernel defined; None for
    other messages."""
    in_assembly = message.path == INLINE_ASSEMBLY
    of_line = message.position is not None and not message.position.column and not sources.is_cuda
    if (message.position is not None and not (in_assembly or of_line)) or message.kind in TRANSIENT_KINDS:
        return None
    if of_line and not in_assembly:
        place = _place_in_line(message, sources)
        if place is not None:
            return place
    rendered, text = sources.rendered, sources.rendered.source_map.text
    if _AT_END.match(message.text) and message.kind is MessageKind.COMPILER:
        end = len(text.rstrip())
        return rendered.place_at(max(end - 1, 0), end)
    symbol = symbol_of(message)
    intrinsic = _INTRINSIC.search(message.text)
    if intrinsic is not None:
        return _use_of_intrinsic(intrinsic["name"], sources)
    if symbol is None:
        of_assembler = in_assembly or message.tool == "ptxas" or message.kind is MessageKind.BACKEND
        string = assembly(text, message) if of_assembler else None
        return None if string is None else rendered.place_at(string.start, string.end)
    return _place_of_symbol(symbol, sources)


def _place_in_line(message: ClangMessage, sources: Sources) -> SourcePlace | None:
    """The place of a message of which only the line is known: the symbol's name in it, or a macro that names it."""
    chain = _way_to(message.path, sources)
    if message.position is None or chain is None:
        return None
    number = message.position.line - 1
    line = sources.line_at(message.path, number)
    if line is None:
        return None
    symbol = symbol_of(message)
    name = "" if symbol is None else symbol.name
    found = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", line) if name else None
    related: tuple[Related, ...] = ()
    if found is None and name:
        macros = macros_naming([*sources.users_texts()], name)
        used = ((macro, re.search(rf"\b{macro.name}\b", line)) for macro in macros)
        macro, found = next(((macro, use) for macro, use in used if use is not None), (None, None))
        related = _in_macros(macros if macro is not None else (), name, sources)
    if found is None and symbol is not None:  # inlined code stands at any line around it
        elsewhere = _place_of_symbol(symbol, sources)
        if elsewhere is not None:
            return elsewhere
    start, end = found.span() if found is not None else (len(line) - len(line.lstrip()), len(line.rstrip()))
    return _placed(message.path, Position(number, start), Position(number, end), (*related, *chain), sources)


def _place_of_symbol(symbol: NamedSymbol, sources: Sources) -> SourcePlace | None:
    text = sources.rendered.source_map.text
    declared: tuple[Related, ...] = ()
    if symbol.problem is SymbolProblem.UNDEFINED and (one := declaration(text, symbol)) is not None:
        place = sources.rendered.place_at(one.start, one.end)
        declared = () if place is None else (Related("declared here, and defined nowhere", place.span),)
    found = uses(text, symbol)
    if not found or (symbol.problem is SymbolProblem.UNDEFINED and not found[0].function):
        texts = [*sources.users_texts()]
        used = _used_in(texts[1:], [symbol], declared, sources)
        if used is None and symbol.problem is SymbolProblem.UNDEFINED:
            macros = macros_naming(texts, symbol.name)
            named = [replace(symbol, name=macro.name) for macro in macros]
            used = _used_in(texts, named, (*_in_macros(macros, symbol.name, sources), *declared), sources)
        if used is not None:
            return used
    place = sources.rendered.place_at(found[0].start, found[0].end) if found else None
    return None if place is None else replace(place, chain=(*declared, *place.chain))


def _used_in(
    texts: Iterable[tuple[str, str]], symbols: Sequence[NamedSymbol], related: tuple[Related, ...], sources: Sources
) -> SourcePlace | None:
    """The first use or definition of one of `symbols` in `texts`, with the inclusions that lead there."""
    for path, text in texts:
        for symbol in symbols:
            inside = [one for one in uses(text, symbol) if one.function or one.of_type or one.defines]
            if inside:
                lines = LineIndex(text)
                start, end = lines.position(inside[0].start), lines.position(inside[0].end)
                return _placed(path, start, end, (*related, *(_way_to(path, sources) or ())), sources)
    return None


def _use_of_intrinsic(name: str, sources: Sources) -> SourcePlace | None:
    """The call of the function that `__asm("llvm.…")` declares to be an intrinsic; else its declaration."""
    texts = [*sources.users_texts()]
    for path, text in texts:
        for match in re.finditer(rf'"{re.escape(name)}(?:\.\w+)*"', text):
            declared = _DECLARED.search(re.split(r"[;{}]", text[: match.start()])[-1])
            lines = LineIndex(text)
            at = _placed(path, lines.position(match.start()), lines.position(match.end()), (), sources)
            if declared is None or at is None:
                return at
            symbol = NamedSymbol(SymbolProblem.UNDEFINED, declared["name"], declared["name"])
            return _used_in(texts, [symbol], (Related("declared to be this intrinsic here", at.span),), sources) or at
    return None


def _in_macros(macros: Iterable[NamingMacro], name: str, sources: Sources) -> tuple[Related, ...]:
    related = []
    for macro in macros:
        lines = LineIndex(sources.text_of(macro.path))
        place = _placed(macro.path, lines.position(macro.start), lines.position(macro.end), (), sources)
        if place is not None:
            related.append(Related(f"the macro '{macro.name}' uses '{name}' here", place.span))
    return tuple(related)


def _placed(
    path: str, start: Position, end: Position, chain: tuple[Related, ...], sources: Sources
) -> SourcePlace | None:
    if not sources.rendered.is_at(path):
        return SourcePlace(Span(path, start, end), chain)
    place = sources.rendered.place_of(start, end)
    return None if place is None else replace(place, chain=(*chain, *place.chain))


def _way_to(path: str, sources: Sources) -> tuple[Related, ...] | None:
    """The inclusions that lead to a file of the user's, None for any other file."""
    if sources.rendered.is_at(path):
        return ()
    way = sources.way_to(path)
    if way is not None:
        return way_of(way, sources)
    return () if sources.is_own_header(path) else None
