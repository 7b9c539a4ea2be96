"""Settings: what is wrong is told, and has its default."""

from __future__ import annotations

from ckwatch_lsp.session.settings import NAMES, EditorSettings, settings_from
from helpers.each_row import each_row

ROWS: list[tuple[object, EditorSettings, list[str]]] = [
    (None, EditorSettings(), []),
    ({}, EditorSettings(), []),
    ({"hints": False, "shape": "4096"}, EditorSettings(hints=False, shape="4096"), []),
    ({"informationDiagnostics": True}, EditorSettings(information_diagnostics=True), []),
    ({"informationDiagnostics": "auto", "buildFirst": "all"}, EditorSettings(build_first="all"), []),
    ({"command": "/x", "trace": {"server": "off"}, "lenses": None}, EditorSettings(), []),
    ({"lens": True}, EditorSettings(), ["unknown setting ckwatch.lens; did you mean ckwatch.lenses?"]),
    ({"hints": 1}, EditorSettings(), ["ckwatch.hints is 1; it must be true or false"]),
    ({"hints": "true"}, EditorSettings(), ["ckwatch.hints is 'true'; it must be true or false"]),
    (
        {"buildFirst": "some"},
        EditorSettings(),
        ['ckwatch.buildFirst is \'some\'; it must be "active", "all" or "none"'],
    ),
    ({"shape": 4096}, EditorSettings(), ["ckwatch.shape must be a string"]),
    ({"zzz": 1}, EditorSettings(), ["unknown setting ckwatch.zzz"]),
    ([], EditorSettings(), ["the settings of ckwatch must be an object"]),
]


@each_row(("given", "settings", "problems"), ROWS)
def test_settings(given: object, settings: EditorSettings, problems: list[str]) -> None:
    assert settings_from(given) == (settings, problems)


def test_names_are_as_editors_write_them() -> None:
    assert {"hints", "hostCheckOnType", "buildFirst", "startDaemon"} <= set(NAMES)
