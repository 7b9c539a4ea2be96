"""Settings: what is wrong is told, and has its default."""

from __future__ import annotations

import pytest

from ckwatch_lsp.settings import NAMES, Settings, settings_from

ROWS: list[tuple[object, Settings, list[str]]] = [
    (None, Settings(), []),
    ({}, Settings(), []),
    ({"hints": False, "shape": "4096"}, Settings(hints=False, shape="4096"), []),
    ({"informationDiagnostics": True}, Settings(information_diagnostics=True), []),
    ({"informationDiagnostics": "auto", "buildFirst": "all"}, Settings(build_first="all"), []),
    ({"command": "/x", "trace": {"server": "off"}, "lenses": None}, Settings(), []),
    ({"lens": True}, Settings(), ["ckwatch.lens is no setting; did you mean ckwatch.lenses?"]),
    ({"hints": 1}, Settings(), ["ckwatch.hints is 1; it must be true or false"]),
    ({"hints": "true"}, Settings(), ["ckwatch.hints is 'true'; it must be true or false"]),
    ({"buildFirst": "some"}, Settings(), ['ckwatch.buildFirst is \'some\'; it must be "active", "all" or "none"']),
    ({"shape": 4096}, Settings(), ["ckwatch.shape must be a string"]),
    ({"zzz": 1}, Settings(), ["ckwatch.zzz is no setting"]),
    ([], Settings(), ["the settings of ckwatch must be an object"]),
]


@pytest.mark.parametrize(("given", "settings", "problems"), ROWS)
def test_settings(given: object, settings: Settings, problems: list[str]) -> None:
    assert settings_from(given) == (settings, problems)


def test_names_are_as_editors_write_them() -> None:
    assert {"hints", "hostCheckOnType", "buildFirst", "startDaemon"} <= set(NAMES)
