"""The saved disassemblies; how each was made is in the README beside them."""

from __future__ import annotations

from pathlib import Path

from ckwatch.codeobject.disassembly import DisassembledFunction, functions

FOLDER = Path(__file__).parents[1] / "data" / "disassembly"


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text()


def function_of(name: str, symbol: str) -> DisassembledFunction:
    """The one function of a saved disassembly whose symbol contains `symbol`."""
    found = [function for function in functions(text_of(name)) if symbol in function.symbol]
    assert len(found) == 1, [function.symbol for function in found]
    return found[0]
