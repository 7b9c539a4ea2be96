"""A view: an address, and what it shows of the workspace for the values in that address."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch_web.content import Content

if TYPE_CHECKING:
    from ckwatch_web.feed import Feed

Query = Mapping[str, str]
Act = Callable[["Feed", Query], Awaitable[str]]
"""Does something for a query; what it says then."""


def _nothing(_feed: Feed, _query: Query) -> Hashable:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """One of the page's views.

    `show` makes the content; it may ask the client and raise its errors. It is asked again when `depends` says
    something else, which is quick and asks no daemon. Both raise GoneError where the query names what is not there.
    `actions` are what the content's actions do, by their keys. One that is `untimed` is shown before timings are known,
    and asks the daemon nothing.
    """

    name: str
    title: str
    show: Callable[[Feed, Query], Awaitable[Content]]
    depends: Callable[[Feed, Query], Hashable] = _nothing
    actions: Mapping[str, Act] = field(default_factory=dict)
    untimed: bool = False

    @property
    def path(self) -> str:
        """Its address."""
        return "/" if self.name == "now" else f"/{self.name}"
