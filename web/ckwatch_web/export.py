"""`ckwatch web --export DIR`: the same views as files, for an artifact of CI or a colleague."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from ckwatch import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch_web.content import Content, Note
from ckwatch_web.feed import Feed
from ckwatch_web.static_html import SCRIPT_FILE, csv_files, echarts_script, page
from ckwatch_web.views.all import OF_KERNELS, OF_UNITS, VIEWS

if TYPE_CHECKING:
    from ckwatch.client import Client

MOST_UNITS = 200
"""So many units have pages of their own, where none are named."""

SETTLE_S = 30.0
"""How long a daemon that is at work is waited for; then the views show it at work."""


@dataclass(frozen=True, slots=True)
class Page:
    """A file to write: a view of something."""

    view: str
    query: Mapping[str, str]
    name: str

    @property
    def stem(self) -> str:
        """Its file's name without the ending, of letters, digits and dashes alone."""
        if not self.query:
            return "index" if self.view == "now" else self.view
        text = " ".join(self.query.values())
        plain = re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:60]
        return f"{self.view}-{plain}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"

    @property
    def file(self) -> str:
        """The file's name."""
        return f"{self.stem}.html"


WHOLE = "profile"
"""A view whose pages need no other file: each is something to send."""

ON_REQUEST = {"compile-time": "trace", "profile": "profile"}
"""Actions of views that show more, or anything, once something was executed; `--traces` asks for it."""


def pages(kernels: list[str], units: list[str], *, traces: bool = False) -> Iterator[Page]:
    """All pages: each view once, those of a kernel or a unit once for each; with `traces` those of profiles, too."""
    for view in VIEWS.values():
        if view.name == "profile" and not traces:
            continue
        if view.name in OF_KERNELS:
            yield from (Page(view.name, {"kernel": kernel}, f"{view.title}: {kernel}") for kernel in kernels)
        elif view.name in OF_UNITS:
            yield from (Page(view.name, {"unit": unit}, f"{view.title}: {unit}") for unit in units)
        else:
            yield Page(view.name, {}, view.title)


async def export(
    client: Client, target: Path, units: Sequence[str], *, chosen: bool, traces: bool
) -> tuple[int, list[str]]:
    """Write the views of `units` as files into the folder `target`: how many, and what was wrong with those that say so
    instead. Without being `chosen`, the first MOST_UNITS have pages. `traces`: compile each for its trace, and
    profile it.

    Raises CkwatchError where nothing can be written.
    """
    library = await to_thread.run_sync(_prepare, target)
    async with anyio.create_task_group() as tasks:
        feed = Feed(client)
        feed.timings_wanted.set()
        tasks.start_soon(feed.run)
        while not feed.timed:
            await feed.changed(feed.revision)
        with anyio.move_on_after(SETTLE_S):
            while feed.workspace is None or feed.workspace.busy:
                await feed.changed(feed.revision)
        kernels = sorted({feed.units[unit].kernel for unit in units if unit in feed.units})
        todo = list(pages(kernels, list(units if chosen else units[:MOST_UNITS]), traces=traces))
        first = {one.view: one for one in reversed(todo)}
        menu = [(VIEWS[name].title, first[name].file) for name in VIEWS if name in first]
        alike = {name: [(one.name, one.file) for one in todo if one.view == name] for name in first}
        failed = []
        for one in todo:
            action = ON_REQUEST.get(one.view) if traces else None
            inline = library if one.view == WHOLE else ""
            failed += await _write(feed, target, one, menu, alike[one.view], action=action, library=inline)
        tasks.cancel_scope.cancel()
    return len(todo), failed


async def _write(
    feed: Feed,
    target: Path,
    one: Page,
    menu: Sequence[tuple[str, str]],
    others: Sequence[tuple[str, str]],
    *,
    action: str | None,
    library: str,
) -> list[str]:
    """Write a view, after an action of it; what is wrong with it."""
    view, wrong = VIEWS[one.view], []
    try:
        if action is not None:
            await view.load()
            await view.actions[action](feed, one.query)
        content = await view.show(feed, one.query)
    except CkwatchError as error:
        wrong.append(f"{one.name}: {error.message}")
        content = Content(title="", blocks=(Note(key="error", text=error.message, kind="error"),))

    def files() -> dict[str, str]:
        tables = csv_files(one.stem, content.tables)
        names = {key: name for key, (name, _) in tables.items()}
        text = page(content, view.title, menu=menu, others=others, csv_of=names, library=library)
        return {one.file: text, **dict(tables.values())}

    await to_thread.run_sync(lambda: _write_files(target, files()))
    return wrong


def _prepare(target: Path) -> str:
    """Make the folder with the library for plots; that library's text."""
    spec = find_spec("nicegui")
    assert spec is not None  # noqa: S101  # the views could not have been imported
    assert spec.origin is not None  # noqa: S101
    dist = Path(spec.origin).parent / "elements" / "echart" / "dist"
    try:
        library = echarts_script(dist)
        target.mkdir(parents=True, exist_ok=True)
        (target / SCRIPT_FILE).write_text(library, encoding="utf-8")
    except OSError as error:
        raise CkwatchError(f"{target} cannot be written: {error.strerror or error}") from None
    return library


def _write_files(target: Path, files: Mapping[str, str]) -> None:
    try:
        for name, text in files.items():
            (target / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CkwatchError(f"{target} cannot be written: {error.strerror or error}") from None
