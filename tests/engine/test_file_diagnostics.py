"""The diagnostics of a file, of all units that have some in it."""

from __future__ import annotations

from ckwatch.core.events import UnitKey
from ckwatch.engine.file_diagnostics import DiagnosedFiles, fold_diagnostics
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.text import span


def found(message: str) -> Diagnostic:
    return Diagnostic(Severity.ERROR, Source.CLANG, "clang/x", message, span("/t.j2", 0, 0, 0, 1))


def test_a_message_is_stale_when_all_its_units_are_worked_on() -> None:
    old, both = found("old"), found("both")
    shown = fold_diagnostics([found("own")], {"a": (both,)}, {"b": (old, both)}, 5)
    assert [(one.message, one.stale, one.units, one.unit_count) for one in shown] == [
        ("own", False, (), 0),
        ("both", False, ("a", "b"), 5),
        ("old", True, ("b",), 5),
    ]


def test_which_units_have_diagnostics_where() -> None:
    files = DiagnosedFiles()
    one, two = UnitKey("", "one"), UnitKey("", "two")
    files.update(one, frozenset({"/a", "/b"}))
    files.update(two, frozenset({"/a"}))
    assert files.units("", "/a") == ["one", "two"]
    files.update(one, frozenset({"/b"}))
    assert files.units("", "/a") == ["two"]
    files.update(two, frozenset())
    assert files.paths("") == ["/b"]
    assert files.units("ann", "/b") == []
