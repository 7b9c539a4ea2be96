"""Values as kernel files write them."""

from __future__ import annotations

import re
from typing import Any

_NOT_IN_NAMES = re.compile(r"[^\w.+-]+")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_CONTROL = re.compile("[\x00-\x1f\x7f]")


def toml_value(value: Any) -> str:
    """A parameter's value in TOML. Raises ValueError for what no parameter can be."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml_value, value))}]"
    raise ValueError(f"{type(value).__name__} is no value of a template parameter")


def toml_string(value: str) -> str:
    """A string in quotes."""
    escaped = "".join(_ESCAPES.get(one, one) for one in value)
    return '"' + _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", escaped) + '"'


def toml_key(name: str) -> str:
    """A key, in quotes where it has to be."""
    return name if _BARE_KEY.fullmatch(name) else toml_string(name)


def value_in_name(value: Any) -> str:
    """How a swept value stands in an instance's name: `128`, `4x64x1`, `v3`, `true`; as the daemon writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "x".join(map(str, value))
    return _NOT_IN_NAMES.sub("-", str(value))


def _number(value: float) -> str:
    if value != value:  # not a number
        return "nan"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    text = repr(value)
    return text if "." in text or "e" in text else f"{text}.0"
