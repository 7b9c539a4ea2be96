"""Values of templates in the words of those who write templates, and Python's complaints about them in such words."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from ckwatch.model.kernels import Operation, Tensor

KINDS = {
    "int": "an integer",
    "bool": "a boolean",
    "float": "a number",
    "str": "a string",
    "MappedText": "a string",
    "Markup": "a string",
    "tuple": "a tuple",
    "list": "a list",
    "dict": "a mapping",
    "range": "a range",
    "NoneType": "none",
    "Tensor": "a tensor",
    "Operation": "the operation",
    "Hook": "a hook",
    "Macro": "a macro",
    "Namespace": "a namespace",
    "LoopContext": "the loop",
    "KernelNamespace": "the hooks",
    "function": "a function",
    "method": "a function",
    "builtin_function_or_method": "a function",
    "type": "a function",
    "generator": "a sequence",
    "map": "a sequence",
}
"""Kinds of values in words, by the name of their class."""

_OPERANDS = re.compile(r"unsupported operand type\(s\) for (?P<operator>\S+?):? '(?P<left>\w+)' and '(?P<right>\w+)'")
_COMPARED = re.compile(r"'(?P<operator>\S+)' not supported between instances of '(?P<left>\w+)' and '(?P<right>\w+)'")
_JOINED = re.compile(r"can only concatenate (?P<left>\w+) \(not \"(?P<right>\w+)\"\) to \w+")
_NOT_DONE = re.compile(
    r"(?:'(?P<kind>\w+)' object|Value after \* must be an iterable, not (?P<starred>\w+)"
    r"|cannot unpack non-iterable (?P<unpacked>\w+) object)(?: is not (?P<what>\w+))?"
)
_PYTHON_NAMES = re.compile(r"(?:\b\w+\.)*\b(?:(?:sync_)?do_|_+)?(\w+)\(\)")
_QUOTED_KIND = re.compile(r"'(\w+)' object|(?<=not )'?(\w+)'?$")


def kind_of(name: str) -> str:
    """A value of the class `name`, in words."""
    return KINDS.get(name, "a value of another kind")


def describe(value: object) -> str:
    """A value, for a message: `the string "X"`."""
    if isinstance(value, Tensor):
        return f"the tensor {value.name}"
    if isinstance(value, Operation):
        return "the operation"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"the number {value}" if not isinstance(value, int) or value.bit_length() < 100 else "an enormous number"
    if isinstance(value, str):
        return f'the string "{value if len(value) <= 40 else value[:39] + "…"}"'
    name = getattr(value, "name", "")
    kind = kind_of(type(value).__name__)
    return f"{kind.replace('a ', 'the ', 1)} {name}" if isinstance(name, str) and name else kind


def near(name: str, known: Iterable[str]) -> str:
    """The one of `known` that `name` was probably meant to be; empty if there is none."""
    folded = {_folded(candidate): candidate for candidate in sorted(set(known)) if candidate != name}
    matches = difflib.get_close_matches(_folded(name), folded, n=1, cutoff=0.7)
    if not matches:  # too short for a measure of likeness
        matches = [one for one in folded if sorted(one) == sorted(_folded(name))]
    return folded[matches[0]] if matches else ""


def _folded(name: str) -> str:
    return name.replace("_", "").lower()


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean '…'?` where there is something near, else nothing."""
    meant = near(name, known)
    return f"; did you mean '{meant}'?" if meant else ""


def in_words(error: BaseException) -> str:
    """Phrase Python's message about a template's values without Python's class names."""
    text = str(error)
    if isinstance(error, ZeroDivisionError):
        return "division by zero"
    if found := _JOINED.search(text):
        left, right = kind_of(found["left"]), kind_of(found["right"])
        hint = "; `~` joins values of any kind as text" if found["left"] == "str" else ""
        return f"`+` cannot join {left} and {right}{hint}"
    if found := _COMPARED.search(text):
        return f"`{found['operator']}` cannot compare {kind_of(found['left'])} with {kind_of(found['right'])}"
    if found := _OPERANDS.search(text):
        left, right = kind_of(found["left"]), kind_of(found["right"])
        hint = "; `~` joins values of any kind as text" if found["right"] == "str" and found["operator"] == "+" else ""
        return f"`{found['operator']}` does not work with {left} and {right}{hint}"
    if found := _NOT_DONE.search(text):
        return _cannot_be(found)
    text = _PYTHON_NAMES.sub(r"\1", text).replace("positional argument", "argument")
    return _QUOTED_KIND.sub(lambda found: kind_of(found[1] or found[2]), text) or "this cannot be worked out"


def _cannot_be(found: re.Match[str]) -> str:
    if found["unpacked"]:
        return f"the loop goes over {kind_of(found['unpacked'])}, which has no parts to give names to"
    kind = kind_of(found["kind"] or found["starred"])
    what = found["what"]
    if found["starred"] or what == "iterable":
        return f"a list is needed here, not {kind}"
    if what == "callable":
        return f"this is {kind} and cannot be called"
    if what == "subscriptable":
        return f"this is {kind} and has no elements"
    return f"this cannot be done with {kind}"
