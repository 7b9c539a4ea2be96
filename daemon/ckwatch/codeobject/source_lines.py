"""The source lines of instructions: the chain of inlined calls around each, and the place in the template.

A code object has no lines unless it was compiled for them (`ckwatch.compile.line_tables`): line tables change no
instruction and cost a second compile. `llvm-symbolizer` then prints for each address the source line and the calls that
were inlined around it (`symbolizer_calls`, `call_chains_of`). As the second compile has the same instructions
(`same_instructions`), its lines are carried over to the artifact (`transfer_call_chains`), and from the compiled text
to one with the same tokens in other places (`move_call_chains`).

In CK there are twenty calls around an instruction, and the innermost line is seldom the one to look at: it lies in
`static_for`, a buffer's `Get`, or a wrapper of an intrinsic. `significant_calls` are the calls that say something, one
for each header; `place_in_template` is the template line from which it all was called.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ckwatch.checks.clang_output import ClangPosition
from ckwatch.checks.places import RenderedFile, SourcePlace, extent
from ckwatch.codeobject.disassembly import DisassembledFunction
from ckwatch.model.lazy_dataclass import dataclass

_SYMBOLIZER_ARGUMENTS = ("--inlines", "--output-style=JSON", "--demangle", "--no-debuginfod")
_ADDRESSES_PER_CALL = 500


@dataclass(frozen=True, slots=True)
class SourceFrame:
    """A source line with the function that it stands in, without template arguments.

    `line` and `column` count from one, columns in UTF-8 bytes, as compilers count; 0 is not known.
    """

    function: str
    path: str
    line: int
    column: int = 0


CallChain = tuple[SourceFrame, ...]
"""A call chain, the innermost line first."""

_HOUSEKEEPING = re.compile(
    r"(?:^|/)(?:ck/utility/|ck/tensor/static_tensor|ck/tensor_description/|ck_tile/core/|ck_tile/host/"
    r"|hip/|clang/\d+/include/|c\+\+/\d+|__clang_)"
)
_CALL = "operator()"
_ABSENT = ("", "??", "<invalid>")
_OPERATOR = re.compile(r"\boperator *(?:\(\)|\[\]|<=>|->\*?|<<=?|>>=?|&&|\|\||\+\+|--|[-+*/%^&|~!=<>]=?|,)")
_ADDRESS_BEGIN = '{"Address":'  # in a string its quotes would be escaped


def symbolizer_calls(code_object: str, addresses: Iterable[int]) -> Iterator[tuple[str, ...]]:
    """Arguments of llvm-symbolizer for the lines of `addresses`: what each call prints is read by `call_chains_of`.

    Several calls, because for a GEMM of CK it prints some 7 KB for each address. They may run side by side.
    """
    words = [f"{address:#x}" for address in addresses]
    for first in range(0, len(words), _ADDRESSES_PER_CALL):
        yield (*_SYMBOLIZER_ARGUMENTS, f"--obj={code_object}", *words[first : first + _ADDRESSES_PER_CALL])


def call_chains_of(printed: str, expand: Callable[[str], str] = str) -> dict[int, CallChain]:
    """The call chain of each address in what llvm-symbolizer printed: a list, or for addresses on its standard input
    one line each. `expand` makes paths of those in the line tables.

    Addresses without a line are left out, and so is what is no JSON: damage costs lines, nothing more.
    """
    found: dict[int, CallChain] = {}
    known: dict[str, CallChain] = {}
    for line in _printed_addresses(printed):
        head, _, symbols = line.partition('"Symbol":')
        frames = known.get(symbols)
        try:
            answer = json.loads(line if frames is None else head + '"Symbol":[]}')
            address = int(answer["Address"], 0)
            if frames is None:
                frames = known[symbols] = _call_chain(answer["Symbol"], expand)
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
        if frames:
            found[address] = frames
    return found


def _printed_addresses(printed: str) -> Iterator[str]:
    """The facts about each address, one after the other: no call goes through megabytes."""
    begin = printed.find(_ADDRESS_BEGIN)
    while begin >= 0:
        end = printed.find(_ADDRESS_BEGIN, begin + 1)
        yield printed[begin : end if end >= 0 else None].rstrip("],\n")
        begin = end


def significant_calls(frames: CallChain) -> CallChain:
    """The calls of a chain that say something, the outermost first, without building blocks of CK and HIP.

    Calls within one file are one step, at its innermost line and with the name of the function around its lambdas. The
    innermost line is a step of its own when nothing else is there. Empty for an empty chain.
    """
    found: list[SourceFrame] = []
    for frame in reversed(frames):
        if _HOUSEKEEPING.search(frame.path):
            continue
        if found and found[-1].path == frame.path:
            last = found.pop()
            named = last.function if frame.function == _CALL and last.function else frame.function
            found.append(SourceFrame(named, frame.path, frame.line, frame.column))
        else:
            found.append(frame)
    return tuple(found) or frames[:1]


def place_in_template(frames: CallChain, rendered: RenderedFile) -> SourcePlace | None:
    """The template span behind the innermost frame in the rendered file, None when no frame lies in it."""
    for frame in frames:
        if not frame.line or not rendered.is_at(frame.path):
            continue
        if rendered.line(frame.line - 1) is None:
            continue
        if not frame.column:
            return rendered.place_of_line(frame.line - 1)
        start, end = extent(rendered.line, ClangPosition(frame.line, frame.column), ())
        return rendered.place_of(start, end) if end > start else rendered.place_of_line(start.line)
    return None


def short_path(path: str, roots: Mapping[str, str]) -> str:
    """`path` below the nearest of the named folders, as headers are included: `ck/utility/functional2.hpp`.

    `roots` are include folders and others by name (`Toolchain.roots`, as text); a path below none stays as it is.
    """
    normal = posixpath.normpath(path)
    for folder in sorted((posixpath.normpath(folder) for folder in roots.values()), key=len, reverse=True):
        if normal.startswith(folder + "/"):
            return normal[len(folder) + 1 :]
    return normal


@lru_cache(maxsize=4096)
def plain_name(function: str) -> str:
    """A function's name without return type, parameters and template arguments: `ck::GridwiseGemm::Run`."""
    if function in _ABSENT:
        return ""
    text = function.replace("(anonymous namespace)::", "")
    before = text.partition("<")[0]
    if text.endswith(">") and before.isidentifier() and before != "operator":
        return before
    operator = _OPERATOR.search(text)
    if operator is not None and text.count("<", 0, operator.start()) == text.count(">", 0, operator.start()):
        return _without_arguments(text[: operator.start()]) + operator[0]
    return _without_arguments(text)


def _without_arguments(text: str) -> str:
    kept: list[str] = []
    depth = 0
    for character in text:
        if character == "<":
            depth += 1
        elif character == ">" and depth:
            depth -= 1
        elif character == "(" and not depth:
            break
        elif not depth:
            kept.append(character)
    return "".join(kept).strip().rpartition(" ")[2]


def _call_chain(symbols: list[dict[str, Any]], expand: Callable[[str], str]) -> CallChain:
    return tuple(
        SourceFrame(
            plain_name(str(symbol["FunctionName"])),
            expand(posixpath.normpath(str(symbol["FileName"]))),
            int(symbol["Line"]),
            int(symbol["Column"]),
        )
        for symbol in symbols
        if symbol["FileName"] not in _ABSENT and symbol["Line"]
    )


def same_instructions(one: DisassembledFunction, other: DisassembledFunction) -> bool:
    """Return True if two functions have the same instructions, whatever their addresses."""
    return len(one.instructions) == len(other.instructions) and all(
        (mine.text, mine.size) == (theirs.text, theirs.size)
        for mine, theirs in zip(one.instructions, other.instructions, strict=True)
    )


def transfer_call_chains(
    frames: Mapping[int, CallChain], source: DisassembledFunction, target: DisassembledFunction
) -> dict[int, CallChain]:
    """The call chains of one function by the addresses of another with the same instructions."""
    pairs = zip(source.instructions, target.instructions, strict=True)
    return {theirs.address: frames[mine.address] for mine, theirs in pairs if mine.address in frames}


def move_call_chains(
    frames: Mapping[int, CallChain], path: str, move: Callable[[ClangPosition], ClangPosition]
) -> dict[int, CallChain]:
    """The call chains with the places in the file `path` moved; equal chains are moved once."""
    known: dict[CallChain, CallChain] = {}
    for chain in frames.values():
        if chain not in known:
            known[chain] = tuple(_move_frame(frame, move) if frame.path == path else frame for frame in chain)
    return {address: known[chain] for address, chain in frames.items()}


def _move_frame(frame: SourceFrame, move: Callable[[ClangPosition], ClangPosition]) -> SourceFrame:
    place = move(ClangPosition(frame.line, frame.column))
    return replace(frame, line=place.line, column=place.column)
