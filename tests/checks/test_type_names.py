"""Monstrous type names lose their arguments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckwatch.checks.type_names import shorten
from helpers.clang_logs import case

LONG = ", ".join(f"ck::Tuple<ck::integral_constant<int, {n}>>" for n in range(9))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no member named 'x' in 'std::vector<int>'", "no member named 'x' in 'std::vector<int>'"),
        (
            f"in instantiation of 'ck::a::Device<{LONG}>::Run' requested",
            "in instantiation of 'Device<…>::Run' requested",
        ),
        (f"'A<1, 2>' and 'B<{LONG}>' and 'C<3>'", "'A<1, 2>' and 'B<…>' and 'C<3>'"),
        (f"'A<B<{LONG}>>::f<{LONG}>()'", "'A<…>::f<…>()'"),
        (f"requirement '3 < 4' in 'A<{LONG}>'", "requirement '3 < 4' in 'A<…>'"),
        (f"'operator<<' for 'A<{LONG}>'", "'operator<<' for 'A<…>'"),
        (f"f(A<{LONG}>, decltype(a < b))", "f(A<…>, decltype(a < b))"),
        ("x" * 500, "x" * 500),
        (f"open A<{LONG}", f"open A<{LONG}"),
    ],
)
def test_shorten(text: str, expected: str) -> None:
    assert shorten(text) == expected


@given(st.text(alphabet="ab<>:, ()'=-", max_size=300))
def test_never_longer_and_stable(text: str) -> None:
    once = shorten(text)
    assert len(once) <= len(text)
    assert shorten(once) == once or len(once) < len(text)


def test_saved_logs_become_readable() -> None:
    longest = max(
        len(shorten(note.text))
        for log in ("bad_tile.device", "interwave_v3.device", "cshuffle.device", "mfma_shape.device")
        for message in case(log).messages
        for note in (message, *message.notes)
    )
    assert longest < 400
