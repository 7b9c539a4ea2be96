"""Errors in one line."""

from __future__ import annotations

import pytest

from ckwatch.model.errors import CkwatchError
from ckwatch_lsp.protocol.server import sentence_of

ROWS = [
    (CkwatchError("no unit is called 'x'"), "no unit is called 'x'."),
    (
        CkwatchError("none has been timed", "`ckwatch bench` takes timings"),
        "none has been timed. `ckwatch bench` takes timings.",
    ),
    (CkwatchError("it is full.", "Save some of them."), "it is full. Save some of them."),
    (CkwatchError("no kernel is called 'a'", "did you mean 'b'?"), "no kernel is called 'a'. did you mean 'b'?"),
]


@pytest.mark.parametrize(("error", "sentence"), ROWS)
def test_sentences(error: CkwatchError, sentence: str) -> None:
    assert sentence_of(error) == sentence
