"""Topics of a workspace that have changed: those of the daemon, and what follows from them here."""

from __future__ import annotations

from typing import Literal

Named = Literal["unit", "file", "readers", "elsewhere", "affected"]
"""Topics that say which one. Of the daemon's are units by their ids and files by their paths. Other units are made of a
template (`readers`), macros of a template affect other units (`affected`), or units of a kernel file have other errors
outside of the workspace (`elsewhere`), each by the path."""

Whole = Literal["workspace", "show", "connection", "units", "rendered", "active", "imported", "history"]
"""The others. `units` are new, gone or moved; any has another text (`rendered`)."""


class Topics(frozenset[str]):
    """The topics of one report."""

    __slots__ = ()

    def any_of(self, *topics: Whole) -> bool:
        """Return True if one of these has changed."""
        return not self.isdisjoint(topics)

    def named(self, kind: Named) -> list[str]:
        """The names of the topics of a kind."""
        return [topic.partition("/")[2] for topic in self if topic.startswith(f"{kind}/")]

    @property
    def moves_units(self) -> bool:
        """True if other units may belong to any document."""
        return self.any_of("units", "connection")
