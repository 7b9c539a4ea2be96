"""The keys that a table may have, from what the daemon's models say (`ckwatch.wire.language.Key`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ckwatch.wire.language import Key

ARRAYS = "array of tables"


class Keys:
    """The known keys of one kind of file, by table."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self._by_table: dict[str, list[Key]] = {}
        self._by_path: dict[str, list[Key]] = {}
        for key in keys:
            table, _, _ = key.path.rpartition(".")
            self._by_table.setdefault(table, []).append(key)
            self._by_path.setdefault(key.path, []).append(key)

    def of_table(self, path: Sequence[str], settings: Mapping[str, str]) -> list[Key]:
        """The keys of the table at `path`, `*` for any name among them. `settings` decides about those that depend."""
        return [key for key in self._by_table.get(".".join(path), ()) if _applies(key, settings)]

    def key(self, path: Sequence[str], settings: Mapping[str, str]) -> Key | None:
        """What is known of the key at `path`; None if nothing."""
        exact = self._by_path.get(".".join(path), ())
        found = next((key for key in exact if _applies(key, settings)), None)
        if found is not None or not path:
            return found
        any_name = self._by_path.get(".".join((*path[:-1], "*")), ())
        return next((key for key in any_name if _applies(key, settings)), None)

    def headers(self, settings: Mapping[str, str]) -> list[Key]:
        """The keys that are tables, which can have a header of their own."""
        found = [key for keys in self._by_path.values() for key in keys if key.type in ("table", ARRAYS)]
        return [key for key in found if _applies(key, settings) and "*" not in key.path]


def _applies(key: Key, settings: Mapping[str, str]) -> bool:
    return all(settings.get(path, value) == value for path, value in key.when.items())
