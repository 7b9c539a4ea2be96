"""Names of users, and how they are shown."""

from __future__ import annotations

import pytest

from ckwatch.model.diagnostics import Diagnostic, Related, Severity, Source
from ckwatch.model.errors import CkwatchError
from ckwatch.model.names import WORD_LIMIT, in_message, unseen_in, why_no_name
from ckwatch.model.text import Position, Span
from helpers.each_row import each_row

SPAN = Span("/w/a", Position(0, 0), Position(0, 1))


@pytest.mark.parametrize("name", ["a", "gemm f16", "größe", "行列", "a-b.c+d", "x" * 120])
def test_names(name: str) -> None:
    assert why_no_name(name) is None


@each_row(
    ("name", "reason"),
    [
        *((f"a{chr(code)}b", f"U+{code:04X}") for code in (0, 9, 10, 0x1B, 0x7F, 0x85, 0x200B, 0x2028, 0x202E, 0x2066)),
        *((name, "cannot be empty") for name in ("", " ")),
        *((name, "begins or ends with a blank") for name in (" a", "a ")),
        ("a/b", "separates kernel and instance"),
        ("a@b", "separates instance and arch"),
        *((name, "are hidden") for name in (".", "..", ".hidden")),
        *((name, "for an option") for name in ("-", "--force")),
        ("x" * 121, "121 characters"),
    ],
)
def test_what_is_no_name(name: str, reason: str) -> None:
    assert reason in (why_no_name(name) or "")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a b\tc\nd", "a b\tc\nd"),
        ("grün 🙂 行", "grün 🙂 行"),
        ("a\u202eb\x1b[31m", "a<U+202E>b<U+001B>[31m"),
        ("x" * WORD_LIMIT, "x" * WORD_LIMIT),
        (f"`{'x' * 1_000_000}`; did you mean `y`?", f"`{'x' * 199}…{'x' * 48}`; did you mean `y`?"),
        ("many words " * 200, "many words " * 200),
    ],
)
def test_text_in_messages(text: str, shown: str) -> None:
    assert in_message(text) == shown
    assert in_message(shown) == shown
    assert Diagnostic(Severity.ERROR, Source.CLANG, "x", text, SPAN, (Related(text, None),)).message == shown
    assert Related(text, None).message == shown
    assert CkwatchError(text, text).hint == shown
    assert unseen_in(in_message(text.replace("\t", "").replace("\n", ""))) is None
