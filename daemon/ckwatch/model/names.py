"""Names that users give, and text from their files in messages."""

from __future__ import annotations

import re
from collections.abc import Callable

NAME_LENGTH_LIMIT = 120
"""Characters of a name."""

WORD_LIMIT = 1000
"""Characters without a blank in a message; the mangled name of a kernel has hundreds."""

WORD_SHOWN = (200, 50)
"""Characters at the beginning and at the end of a longer one that are shown."""

_UNSEEN = "\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff"
"""Control characters, and those that change the direction or the lines of text without being seen."""

_UNSEEN_IN_NAMES = re.compile(f"[\x00-\x1f{_UNSEEN}]")
_UNSEEN_IN_MESSAGES = re.compile(f"[\x00-\x08\x0b\x0c\x0e-\x1f{_UNSEEN}]")
_LONG_WORD = re.compile(rf"\S{{{WORD_LIMIT + 1},}}")

_UNUSABLE: tuple[tuple[Callable[[str], bool], str], ...] = (
    (lambda name: name != name.strip(), "it begins or ends with a blank"),
    (lambda name: "/" in name, "it has a `/`, which separates kernel and instance"),
    (lambda name: "@" in name, "it has an `@`, which separates instance and arch"),
    (lambda name: name.startswith("."), "it begins with a dot, and files called so are hidden"),
    (lambda name: name.startswith("-"), "it begins with a dash, and commands would take it for an option"),
)


def unseen_in(name: str) -> str | None:
    """The first character of `name` that is not seen or reorders others, as `U+202E`; None where there is none."""
    found = _UNSEEN_IN_NAMES.search(name)
    return None if found is None else _code(found)


def why_no_name(name: str) -> str | None:
    """Why nothing can be called so in a unit's id, `KERNEL/INSTANCE@ARCH`, and in a file's name; None if it can."""
    unseen = unseen_in(name)
    if unseen is not None:
        return f"`{name}` is not a name: it holds {unseen}, a character that cannot be seen"
    if not name.strip():
        return "a name cannot be empty"
    reason = next((reason for is_so, reason in _UNUSABLE if is_so(name)), None)
    return why_too_long(name) if reason is None else f"`{name}` is not a name: {reason}"


def why_too_long(name: str) -> str | None:
    """Why nothing can have a name of so many characters; None if it can."""
    if len(name) <= NAME_LENGTH_LIMIT:
        return None
    return f"the name has {len(name)} characters; at most {NAME_LENGTH_LIMIT} are allowed"


def in_message(text: str) -> str:
    """`text` as it can be shown: what is not seen as `<U+202E>`, and words of thousands of characters cut."""
    if len(text) > WORD_LIMIT:
        text = _LONG_WORD.sub(lambda found: _cut(found[0]), text)
    if text.isascii() and text.isprintable():
        return text
    return _UNSEEN_IN_MESSAGES.sub(lambda found: f"<{_code(found)}>", text)


def _cut(word: str) -> str:
    first, last = WORD_SHOWN
    return f"{word[:first]}…{word[-last:]}"


def _code(found: re.Match[str]) -> str:
    return f"U+{ord(found[0]):04X}"
