"""The user's settings: section `ckwatch` of the editor's configuration."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal, get_args, get_type_hints

from ckwatch.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EditorSettings:
    """The editor's settings. `information_diagnostics` "auto": if the editor shows neither hints nor lenses.

    `cpp_hints` "all": of deduced types, too. `profile_against`: `previous`, `baseline`, or an instance.
    """

    hints: bool = True
    lenses: bool = True
    hovers: bool = True
    profile: bool = True
    profile_against: str = "previous"
    information_diagnostics: bool | Literal["auto"] = "auto"
    check_on_type: bool = True
    host_check_on_type: bool = True
    build_first: Literal["active", "all", "none"] = "active"
    start_daemon: bool = True
    shape: str = ""
    cpp: bool = True
    cpp_hints: bool | Literal["all"] = False


def editor_name(name: str) -> str:
    """`buildOnSave` for `build_on_save`."""
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


NAMES = {editor_name(field.name): field.name for field in fields(EditorSettings)}

EDITORS_OWN = frozenset({"command", "trace", "arguments"})
"""Keys of the same section that editors keep for themselves."""


def settings_from(given: object) -> tuple[EditorSettings, list[str]]:
    """The settings, and a sentence for each thing that is wrong; what is wrong has its default."""
    if given is None:
        return EditorSettings(), []
    if not isinstance(given, Mapping):
        return EditorSettings(), ["the settings of ckwatch must be an object"]
    hints = get_type_hints(EditorSettings)
    chosen: dict[str, Any] = {}
    problems = []
    for key, value in given.items():
        name = NAMES.get(key)
        if name is None:
            if key not in EDITORS_OWN:
                near = difflib.get_close_matches(str(key), NAMES, n=1)
                problems.append(
                    f"unknown setting ckwatch.{key}" + (f"; did you mean ckwatch.{near[0]}?" if near else "")
                )
        elif value is None:
            continue
        elif (allowed := _allowed(hints[name])) and not any(
            type(value) is type(one) and value == one for one in allowed
        ):
            problems.append(f"ckwatch.{key} is {value!r}; it must be {_listed(allowed)}")
        elif not allowed and not isinstance(value, str):
            problems.append(f"ckwatch.{key} must be a string")
        else:
            chosen[name] = value
    return EditorSettings(**chosen), problems


def _allowed(hint: Any) -> tuple[object, ...]:
    """The values that a type admits; none for strings."""
    if hint is bool:
        return (True, False)
    if hint is str:
        return ()
    found: tuple[object, ...] = ()
    for part in get_args(hint):
        found += (part,) if isinstance(part, str) else _allowed(part)
    return found


def _listed(values: tuple[object, ...]) -> str:
    words = [str(value).lower() if isinstance(value, bool) else f'"{value}"' for value in values]
    return f"{', '.join(words[:-1])} or {words[-1]}"
