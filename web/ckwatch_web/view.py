"""A view: an address, and what it shows of the workspace for the values in that address."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from ckwatch.model.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from ckwatch_web.content import Content
    from ckwatch_web.feed import Feed

Query = Mapping[str, str]
Act = Callable[["Feed", Query], Awaitable[str]]
"""Does something for a query; what it says then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """One of the page's views. Its module, `views/NAME.py`, has its `show`, `depends` and `ACTIONS`, and is loaded when
    the view is shown first: all of them take a tenth of a second.

    One that is `untimed` is shown before timings are known, and asks the daemon nothing.
    """

    name: str
    title: str
    untimed: bool = False

    @property
    def path(self) -> str:
        """Its address."""
        return "/" if self.name == "now" else f"/{self.name}"

    @property
    def _module(self) -> Any:
        return import_module(f"ckwatch_web.views.{self.name.replace('-', '_')}")

    async def load(self) -> None:
        """Load the module, off the event loop."""
        await to_thread.run_sync(lambda: self._module)

    async def show(self, feed: Feed, query: Query) -> Content:
        """Make the content. It may ask the client, and raises its errors, and GoneError where the query names what is
        not there."""
        await self.load()
        content: Content = await self._module.show(feed, query)
        return content

    def depends(self, feed: Feed, query: Query) -> Hashable:
        """Return what the content depends on: it is made anew when this is another. Quick, of a view that is loaded,
        and asks no daemon. Raises GoneError."""
        found: Hashable = self._module.depends(feed, query)
        return found

    @property
    def actions(self) -> Mapping[str, Act]:
        """The functions of the content's actions, by the actions' keys."""
        return getattr(self._module, "ACTIONS", {})
