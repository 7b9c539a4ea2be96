"""llvm-objdump's disassembly as values.

A line is `\t<instruction>  // <address>: <words>`, and a branch's ends in `<symbol+offset>`. Where a branch goes is
told by the lower half of its word: a signed number of 4-byte words from the instruction that follows (formats SOPP and
SOPK of all AMDGPU ISAs).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

_HEADER = re.compile(r"^([0-9a-fA-F]{8,16}) <(.+)>:$")
_COMMENT = re.compile(r"([0-9A-Fa-f]+):((?: [0-9A-Fa-f]{8}\b)*)")
_PADDING = "s_code_end"
_BRANCHES = ("s_branch", "s_cbranch", "s_call")
_BRACKETS = re.compile(r"\[[^\]]*\]|\([^)]*\)")


class Instruction(NamedTuple):
    """`text` is the whole instruction as the assembler takes it; `target` the address that a direct branch goes to.

    `mnemonic` of a dual instruction is `v_dual_a::v_dual_b`. `size` in bytes. A tuple, since there are thousands.
    """

    address: int
    mnemonic: str
    text: str
    size: int
    target: int | None = None

    @property
    def operands(self) -> tuple[str, ...]:
        """Registers and constants with the modifiers of the last one left on it, as printed."""
        rest = self.text.partition(" ")[2]
        return tuple(part.strip() for part in split_operands(rest)) if rest else ()


@dataclass(frozen=True, slots=True)
class Function:
    """A symbol of the code object and its instructions in the order of their addresses.

    `unknown` counts words that the disassembler did not know.
    """

    symbol: str
    address: int
    instructions: tuple[Instruction, ...]
    unknown: int = 0


def functions(text: str, wanted: Iterable[str] | None = None) -> tuple[Function, ...]:
    """The functions in the output of `llvm-objdump -d`, only those in `wanted` when it is given.

    Lines that are none of a disassembly are passed over; text without any gives ().
    """
    return tuple(_functions(text, None if wanted is None else frozenset(wanted)))


def split_operands(text: str) -> list[str]:
    """Operands at their commas; those in brackets do not count."""
    if "[" not in text and "(" not in text:
        return text.split(",")
    hidden = _BRACKETS.sub(lambda found: found[0].replace(",", "\0"), text)
    return [part.replace("\0", ",") for part in hidden.split(",")]


def _functions(text: str, wanted: frozenset[str] | None) -> Iterator[Function]:
    symbol, address = "", 0
    found: list[Instruction] = []
    unknown = 0
    for line in text.splitlines():
        if not line:
            continue
        if not line[0].isspace():
            header = _HEADER.match(line)
            if header is not None:
                if symbol:
                    yield Function(symbol, address, tuple(found), unknown)
                symbol, address, found, unknown = header[2], int(header[1], 16), [], 0
                if wanted is not None and symbol not in wanted:
                    symbol = ""
            continue
        if not symbol:
            continue
        text, slashes, comment = line.partition("// ")
        told = _COMMENT.match(comment) if slashes else None
        if told is None:
            continue
        instruction = _instruction(text.strip(), int(told[1], 16), told[2])
        if instruction.mnemonic.startswith((".", "<unknown>")):
            unknown += 1
        elif instruction.mnemonic != _PADDING:
            found.append(instruction)
    if symbol:
        yield Function(symbol, address, tuple(found), unknown)


def _instruction(text: str, address: int, words: str) -> Instruction:
    """`words` as printed, each with a blank before it."""
    mnemonic, _, _ = text.partition(" ")
    size = 4 * (len(words) // 9)
    if " :: " in text:
        second = text.partition(" :: ")[2].split(" ", 1)[0]
        return Instruction(address, f"{mnemonic}::{second}", text, size)
    if not mnemonic.startswith(_BRANCHES) or not words:
        return Instruction(address, mnemonic, text, size)
    distance = int(words[5:9], 16)
    return Instruction(
        address, mnemonic, text, size, address + 4 + 4 * (distance - 0x10000 if distance & 0x8000 else distance)
    )
