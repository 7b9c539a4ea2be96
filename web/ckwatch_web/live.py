"""A view on a page that is open: its blocks as elements, which change in place when what they show does."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode

import anyio
from anyio import to_thread
from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from ckwatch import CkwatchError
from ckwatch.model.amounts import count
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch_web import grid
from ckwatch_web.choices import GoneError
from ckwatch_web.content import (
    HEADLINE_MARKS,
    LINKS,
    PLACE,
    UNIT,
    Action,
    Block,
    Choice,
    Content,
    Facts,
    Headlines,
    Note,
    Plot,
    Table,
    changes,
    spans,
    without_marks,
)
from ckwatch_web.places import TextPlace, place_in
from ckwatch_web.plots import painted
from ckwatch_web.view import PageView

if TYPE_CHECKING:
    from nicegui.elements.mixins.value_element import ValueElement
    from nicegui.events import ValueChangeEventArguments

    from ckwatch_web.feed import Feed

_log = logging.getLogger(__name__)

GATHER_S = 0.25
"""A view is made anew at most so often."""

BEGIN_S = 1.0
"""How long units that are not known are waited for before the page is sent."""

FIRST_ROWS = 50
"""Rows of a table that are sent with it: a screen of them. All follow when the browser has drawn the table."""

ANSWER_S = 60.0
"""How long a browser on a busy machine may take to answer."""

UNIT_VIEWS = ("history", "compare", "compile-time", "profile", "predicted", "verification")
"""Views that show one unit, or begin with one."""

_COPY = "navigator.clipboard.writeText({text})"
_PICTURE = (
    "const chart = getElement({id}).chart; const link = document.createElement('a');"
    "link.href = chart.getDataURL({{ pixelRatio: 2, backgroundColor: '{background}' }});"
    "link.download = {name}; link.click();"
)
_ALERT = (
    "if (Notification.permission === 'granted') for (const line of {lines})"
    " new Notification('ckwatch', {{ body: line, tag: line, icon: '/assets/icon.svg' }})"
)
"""Windows that show the same alert replace each other's."""
_ASK = (
    "const answer = await Notification.requestPermission();"
    " localStorage.setItem('ckwatch-alerts', answer === 'granted' ? 'on' : 'off'); return answer"
)
_SCREEN = (
    "document.querySelector('.top [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' });"
    " return ({ dark: matchMedia('(prefers-color-scheme: dark)').matches, theme: localStorage.getItem('ckwatch-theme'),"
    " width: innerWidth, alerts: localStorage.getItem('ckwatch-alerts') === 'on' })"
)


@dataclass(frozen=True, slots=True)
class BrowserScreen:
    """The screen of the browser: a dark page or a light one, and how wide, in CSS pixels."""

    dark: bool
    width: int

    @property
    def narrow(self) -> bool:
        """True for a phone's width."""
        return self.width < 600


@dataclass(slots=True)
class _Drawn:
    """A block as it was drawn, what holds its elements, and what changes these to a block of the same kind and key."""

    block: Block
    holder: ui.element
    change: Callable[[Any], None]


class LivePage:
    """One view in one browser window. Everything here runs in the window's own context."""

    def __init__(
        self,
        view: PageView,
        feed: Feed,
        query: dict[str, str],
        *,
        views: Mapping[str, PageView],
        allow_changes: bool,
        invite: Callable[[str], str],
    ) -> None:
        """`invite` makes the address for another browser of one on this server."""
        self._view = view
        self._feed = feed
        self._query = query
        self._moved_from: set[str] | None = None
        """Keys of the query whose values were chosen for what another choice was before; None once that is shown."""
        self._allow_changes = allow_changes
        self._views = views
        self._invite = invite
        self._screen = BrowserScreen(dark=False, width=1280)
        self._drawn: dict[tuple[type[Block], str], _Drawn] = {}
        self._grids: dict[str, ui.aggrid] = {}
        """By the keys of their tables."""
        self._again = anyio.Event()
        self._content: Content | None = None
        self._shown: Hashable = None
        """`_depends` of what was drawn before the window was connected."""
        self._dark = ui.dark_mode(None)
        self._theme = ""
        """The choice in this window."""
        self._alerting = False
        self._alerted = feed.alerts_seen
        ui.colors(primary="var(--link)")
        with ui.element("div").classes("top"), ui.element("nav").props('aria-label="Views"'):
            for other in views.values():
                link = ui.link(other.title, other.path)
                if other is view:
                    link.props('aria-current="page"')
        self._main = ui.element("div")
        with self._main:
            with ui.element("div").classes("head"):
                self._title = _element("h1", view.title)
                with ui.element("div").classes("window"):
                    self._button("Copy link", self._copy_link)
                    self._button("Another browser", self._copy_invitation)
                    self._alert_button = self._button("Alerts", self._toggle_alerts)
                    self._button("Dark or light", self._toggle_theme)
            self._status = _element("p", "loading …").classes("status").props("role=status")
            self._controls = ui.element("div").classes("choices part")
            self._parts = ui.element("div")

    async def begin(self) -> None:
        """Draw a view that needs no timings into the page that is sent, if its units are known soon. Its screen is not
        known yet."""
        await self._view.load()
        if not self._view.untimed:
            self._feed.timings_wanted.set()
        else:
            with anyio.move_on_after(BEGIN_S):  # NiceGUI gives a page up that takes 3 s
                while not self._is_ready:
                    await self._feed.changed(self._feed.revision)
                depends = self._depends()
                await self._show()
                self._shown = depends
                self._tell()
        if self._shown is None:
            with self._main, ui.element("div").style("display: none"):  # so that they are loaded while the units are
                ui.aggrid({})
                ui.echart({})

    async def run(self) -> None:
        """Show the view, and what becomes of it, until the window is closed."""
        found = await ui.run_javascript(_SCREEN, timeout=ANSWER_S)
        self._feed.timings_wanted.set()
        theme = self._theme or found.get("theme")
        dark = theme == "dark" or (theme != "light" and bool(found.get("dark")))
        self._dark.value = dark
        self._set_alerting(bool(found.get("alerts")))
        self._screen = BrowserScreen(dark=dark, width=int(found.get("width") or 1280))
        if self._screen.narrow:
            for drawn in self._drawn.values():
                drawn.holder.delete()
            self._drawn.clear()
            self._shown = None
        elif dark:
            self._repaint()
        while True:
            revision = self._feed.revision
            depends = self._depends()
            self._again = anyio.Event()
            if depends != self._shown:
                await self._show()
            self._shown = None
            while not self._again.is_set() and self._depends() == depends:
                self._tell()
                revision = await self._changed(revision)
                await anyio.sleep(GATHER_S if self._content is not None else 0)

    def _depends(self) -> Hashable:
        try:
            return self._is_ready, self._view.depends(self._feed, self._query)
        except GoneError as gone:
            return tuple(gone.choice.options)

    @property
    def _is_ready(self) -> bool:
        return self._feed.loaded and (self._feed.timed or self._view.untimed)

    async def _changed(self, revision: int) -> int:
        """Wait until the workspace changes, or this window's address does."""
        async with anyio.create_task_group() as tasks:

            async def wait_for_feed() -> None:
                nonlocal revision
                revision = await self._feed.changed(revision)
                tasks.cancel_scope.cancel()

            tasks.start_soon(wait_for_feed)
            await self._again.wait()
            tasks.cancel_scope.cancel()
        return revision

    async def _show(self) -> None:
        if not self._is_ready:
            return
        try:
            content = await self._view.show(self._feed, dict(self._query))
        except GoneError as gone:
            if gone.choice.key in (self._moved_from or ()):
                del self._query[gone.choice.key]
                self._again.set()
                return
            content = await self._without(gone)
        except CkwatchError as error:
            content = Content(title="", blocks=(Note(key="error", text=str(error), kind="error"),))
            if self._content is not None:  # what was chosen stays to be chosen anew
                content = replace(content, blocks=(*_choices(self._content), *content.blocks))
        except Exception:  # noqa: BLE001  # the window says so, and goes on
            _log.exception("the view %s failed", self._view.name)
            text = "This view failed, which is a mistake in ckwatch; the terminal of `ckwatch web` has the details."
            content = Content(title="", blocks=(Note(key="error", text=text, kind="error"),))
        self._draw(content)
        if self._moved_from is not None:
            self._moved_from = None
            ui.navigate.history.replace(self.address)

    async def _without(self, gone: GoneError) -> Content:
        """In place of a view of something that is not there: what there is to choose, and links to what it may be."""
        near = await to_thread.run_sync(gone.near)
        key, named = gone.choice.key, gone.choice.options
        links = tuple((named[one], self._address({**self._query, key: one})) for one in near)
        note = Note(key="gone", text=gone.message + (" Did you mean:" if near else ""), kind="error", links=links)
        choices = {choice.key: choice for choice in (*_choices(self._content), gone.choice)}
        return Content(title="gone", blocks=(*choices.values(), note))

    def _tell(self) -> None:
        """The line below the title."""
        feed = self._feed
        if not feed.connected:
            text = "No daemon: this is as it was. ckwatch start starts one." if feed.loaded else "loading …"
        else:
            busy = sum(1 for row in feed.units.values() if row.phase == "compiling")
            text = f"{feed.client.root.name}: live" + (f", {busy} compiling" if busy else "")
        self._status.text = text
        seen, self._alerted = self._alerted, feed.alerts_seen
        if self._alerting and feed.alerts_seen > seen:
            new = [one.line for one in feed.alerts][seen - feed.alerts_seen :]
            ui.run_javascript(_ALERT.format(lines=json.dumps(new)))

    def _draw(self, content: Content) -> None:
        title = f"{self._view.title}: {content.title}" if content.title else self._view.title
        self._title.text = title
        ui.page_title(f"{title} – ckwatch")
        blocks = [block for block in content.blocks if self._allow_changes or not changes(block)]
        controls = [block for block in blocks if isinstance(block, (Choice, Action))]
        controls.sort(key=lambda block: isinstance(block, Action))
        wanted = {(type(block), block.key): block for block in (*controls, *blocks)}
        for key in [key for key in self._drawn if key not in wanted]:
            self._drawn.pop(key).holder.delete()
        self._arrange(self._controls, controls)
        self._arrange(self._parts, [block for block in blocks if not isinstance(block, (Choice, Action))])
        self._content = content

    def _arrange(self, room: ui.element, blocks: Sequence[Block]) -> None:
        """Let these blocks stand in a room, in this order. What was there stays, with what the user has done to it."""
        for index, block in enumerate(blocks):
            drawn = self._drawn.get((type(block), block.key))
            if drawn is None:
                half = " half" if isinstance(block, Table) and block.beside else ""
                with room, ui.element("div").classes(f"holder{half}").props(f"id={block.key}") as holder:
                    drawn = _Drawn(block, holder, self._draw_block(block))
                self._drawn[type(block), block.key] = drawn
            elif drawn.block != block:
                drawn.change(block)
                drawn.block = block
            if room.default_slot.children[index] is not drawn.holder:
                drawn.holder.move(room, index)

    def _draw_block(self, block: Block) -> Callable[[Any], None]:
        match block:
            case Choice():
                return self._choice(block)
            case Action():
                return self._action(block)
            case Table():
                return self._table(block)
            case Plot():
                return self._plot(block)
            case Facts():
                return self._facts(block)
            case Headlines():
                return self._headlines(block)
            case Note():
                return self._note(block)

    # Blocks. Each method draws one, and returns what changes it.

    def _choice(self, block: Choice) -> Callable[[Choice], None]:
        shown = block

        def chosen(event: ValueChangeEventArguments[Any]) -> None:
            if event.value not in (None, shown.value):  # else it was the view that set it
                self._go({block.key: str(event.value)})

        select: ValueElement[Any] = ui.select(
            dict(block.options), value=block.value or None, label=block.label, with_input=len(block.options) > 8,
            on_change=chosen,
        ).props("outlined dense options-dense")  # fmt: skip

        def change(new: Choice) -> None:
            nonlocal shown
            shown = new
            select.set_options(dict(new.options), value=new.value or None)  # type: ignore[attr-defined]  # a select

        return change

    def _action(self, block: Action) -> Callable[[Action], None]:
        shown, acting = block, False

        async def act() -> None:
            nonlocal acting
            acting = True
            settle()
            try:
                notice = await self._view.actions[block.key](self._feed, dict(self._query))
                with self._main:  # the button may be gone
                    ui.notify(notice)
            except CkwatchError as error:
                with self._main:
                    ui.notify(error.message, type="negative", caption=error.hint or "", multi_line=True)
            finally:
                acting = False
                settle()
                self._again.set()

        button = self._button(block.label, act, "outline")

        def settle() -> None:
            if not button.is_deleted:
                button.text = shown.label
                button.set_enabled(shown.enabled and not acting)

        def change(new: Action) -> None:
            nonlocal shown
            shown = new
            settle()

        settle()
        return change

    def _table(self, block: Table) -> Callable[[Table], None]:
        shown, first, ready = block, block.rows[:FIRST_ROWS], False
        with ui.element("section").classes("part").props(f'aria-label="{_attribute(block.title)}"'):
            with ui.element("div").classes("head"):
                title = _element("h2", "")
                search = ui.input(placeholder="Filter")
                search.props(f'dense clearable aria-label="Filter {_attribute(block.title)}"').classes("table-input")
                self._button("CSV", lambda: self._save_table(block.key))
                selected = ui.element("div").classes("place").props("aria-live=polite")
            room = ui.element("div")  # the grid is made anew whenever its own element changes
            with room:
                options = grid.grid_options(block, narrow=self._screen.narrow) | {"rowData": list(first)}
                table: ui.aggrid = ui.aggrid(options, auto_size_columns=False).style("height: 100%")
            table.on("selectionChanged", lambda: self._select(selected, table, shown), args=[])
            self._grids[block.key] = table
            search.on_value_change(lambda event: self._filter(table, event.value))

        def fill() -> None:
            nonlocal ready
            if ready or shown.rows != first:
                table.run_grid_method("setGridOption", "rowData", list(shown.rows))
            ready = True
            if search.value:
                self._filter(table, search.value)

        def head(new: Table) -> None:
            title.text = f"{new.title}" + (f" ({len(new.rows):,})" if new.rows else f": {without_marks(new.empty)}")
            room.style(f"height: {grid.height_px(new, narrow=self._screen.narrow)}px")

        def change(new: Table) -> None:
            nonlocal shown
            if new.columns != shown.columns:
                columns = grid.grid_options(new, narrow=self._screen.narrow)["columnDefs"]
                with table.props.suspend_updates():
                    table.options["columnDefs"] = columns
                table.run_grid_method("setGridOption", "columnDefs", columns)
            changes = grid.transaction(shown.rows, new.rows)
            shown = new
            if ready and changes is None:
                fill()
            elif ready and changes is not None and any(changes.values()):
                table.run_grid_method("applyTransaction", changes)
            head(new)

        table.on("gridReady", fill, args=[])
        head(block)
        return change

    def _filter(self, table: ui.aggrid, text: str | None) -> None:
        table.run_grid_method("setGridOption", "quickFilterText", text or "")

    async def _select(self, bar: ui.element, table: ui.aggrid, block: Table) -> None:
        """The ways on from a row that is selected: to its rows in the table beside it, to its text, and to other views
        of its unit."""
        row = await table.get_selected_row() or {}
        place, unit = place_in(row.get(PLACE)), str(row.get(UNIT) or "")
        linked = await self._link(block, str(row.get(LINKS) or "")) if row and block.beside else None
        bar.clear()
        with bar:
            if linked is not None:
                ui.label(linked)
            if place is not None:
                self._ways_to(place)
            if unit in self._feed.units:
                for name in UNIT_VIEWS:
                    if name in self._views and name != self._view.name:
                        ui.link(self._views[name].title, f"/{name}?{urlencode({'unit': unit})}")

    async def _link(self, block: Table, links: str) -> str:
        """Mark the rows of the table beside `block` that have these links, and none of its own; says how many."""
        for key, wanted in ((block.key, ""), (block.beside, links)):
            script = f"({grid.LINK})(getElement({self._grids[key].id}).api, {_text(wanted)})"
            linked = await ui.run_javascript(script, timeout=ANSWER_S)
        return f"{count(linked, 'row')} beside it"

    def _ways_to(self, place: TextPlace) -> None:
        """How to get to a place in a text."""
        ui.label(place.text)
        ui.link("VS Code", place.vscode_url).props(f'aria-label="Open {_attribute(place.text)} in VS Code"')
        self._button("Copy place", lambda: self._copy(place.text))
        if self._feed.editors:
            self._button("My editor", lambda: self._open_in_editor(place))

    async def _open_in_editor(self, place: TextPlace) -> None:
        try:
            is_shown = await self._feed.client.show(place.path, place.line, place.column)
        except CkwatchError as error:
            ui.notify(error.message, type="negative")
            return
        ui.notify("shown in your editor" if is_shown else "no editor is attached now")

    def _plot(self, block: Plot) -> Callable[[Plot], None]:
        with ui.element("section").classes("part").props(f'aria-label="{_attribute(block.title)}"'):
            with ui.element("div").classes("head"):
                title = _element("h2", "")
                self._button("PNG", lambda: self._save_plot(chart, block.key))
            chart = ui.echart(painted(block.option, dark=self._screen.dark)).classes("plot")
            summary = ui.element("p").classes("note note-hint")
            links = ui.element("div").classes("place")

        def change(new: Plot) -> None:
            chart.options.clear()
            chart.options.update(painted(new.option, dark=self._screen.dark))
            chart.update()
            describe(new)

        def describe(new: Plot) -> None:
            title.text = new.title
            chart.style(f"height: {new.height_px}px")
            chart.props["role"] = "img"
            chart.props["aria-label"] = without_marks(f"{new.title}. {new.summary}")
            summary.clear()
            with summary:
                _sentence(new.summary)
            links.clear()
            links.set_visibility(bool(new.links))
            with links:
                for text, address in new.links:
                    ui.link(text, address, new_tab=True).props("rel=noreferrer")

        describe(block)
        return change

    def _facts(self, block: Facts) -> Callable[[Facts], None]:
        with ui.element("section").classes("part").props(f'aria-label="{_attribute(block.title)}"'):
            with ui.element("div").classes("head"):
                title = _element("h2", block.title)
            listed = ui.element("dl").classes("facts")
            lead = self._ways()

        def change(new: Facts) -> None:
            title.text = new.title
            listed.clear()
            with listed:
                for name, value in new.facts:
                    with ui.element("div"):
                        _element("dt", name)
                        with ui.element("dd"):
                            _sentence(value)
            lead(new.place)

        change(block)
        return change

    def _headlines(self, block: Headlines) -> Callable[[Headlines], None]:
        with ui.element("section").classes("part").props(f'aria-label="{_attribute(block.title)}"'):
            listed = ui.element("ul").classes("headlines")

        def change(new: Headlines) -> None:
            listed.clear()
            with listed:
                for line in new.lines:
                    mark, word = HEADLINE_MARKS[line.kind]
                    with ui.element("li").classes(f"headline-{line.kind}"):
                        _element("span", mark).classes("mark").props(f'role=img aria-label="{word}"')
                        with ui.link(target=line.address) if line.address else ui.element("span"):
                            _sentence(line.text)

        change(block)
        return change

    def _note(self, block: Note) -> Callable[[Note], None]:
        text = ui.element("p")
        links = ui.element("div").classes("place")
        lead = self._ways()

        def change(new: Note) -> None:
            text.clear()
            with text:
                _sentence(new.text)
            text.classes(replace=f"note note-{new.kind}")
            links.clear()
            links.set_visibility(bool(new.links))
            with links:
                for name, address in new.links:
                    ui.link(name, address)
            lead(new.place)

        change(block)
        return change

    def _ways(self) -> Callable[[TextPlace | None], None]:
        """Draw the links to a place; returns a function that sets the place."""
        bar = ui.element("div").classes("place")
        bar.set_visibility(False)
        shown: TextPlace | None = None

        def lead(place: TextPlace | None) -> None:
            nonlocal shown
            if place == shown:
                return
            shown = place
            bar.clear()
            bar.set_visibility(place is not None)
            if place is not None:
                with bar:
                    self._ways_to(place)

        return lead

    # What buttons do.

    def _button(self, label: str, act: Callable[[], Any], look: Literal["flat", "outline"] = "flat") -> ui.button:
        return ui.button(label, on_click=act).props(f"{look} dense no-caps")

    def _go(self, query: dict[str, str]) -> None:
        """Show the same view of something else, and say so in the address.

        What was chosen before is kept as far as it is there: another kernel may have no such arch.
        """
        choices = [choice for choice in _choices(self._content) if choice.value or choice.key in query]
        at = next(at for at, choice in enumerate(choices) if choice.key in query)
        self._query = {choice.key: choice.value for choice in choices[:at]} | self._query | query
        self._moved_from = {choice.key for choice in choices[at + 1 :]}
        self._again.set()

    @property
    def address(self) -> str:
        """Of what is shown, on this server."""
        return self._address({choice.key: choice.value for choice in _choices(self._content)} | self._query)

    def _address(self, query: Mapping[str, str]) -> str:
        return self._view.path + (f"?{urlencode(query)}" if query else "")

    def _copy_link(self) -> None:
        ui.run_javascript(f"navigator.clipboard.writeText(new URL({_text(self.address)}, location).href)")
        ui.notify("copied the address of this view")

    def _copy_invitation(self) -> None:
        ui.run_javascript(_COPY.format(text=_text(self._invite(self.address))))
        ui.notify("copied an address that opens this view in one other browser, within ten minutes")

    def _copy(self, text: str) -> None:
        ui.run_javascript(_COPY.format(text=_text(text)))
        ui.notify(f"copied {text}")

    def _save_table(self, key: str) -> None:
        query = {choice.key: choice.value for choice in _choices(self._content)}
        ui.download(f"/csv/{self._view.name}/{key}?{urlencode(query | self._query)}", f"{self._view.name}-{key}.csv")

    def _save_plot(self, chart: ui.echart, key: str) -> None:
        background = "#16181b" if self._screen.dark else "#ffffff"
        name = _text(f"{self._view.name}-{key}.png")
        ui.run_javascript(_PICTURE.format(id=chart.id, background=background, name=name))

    async def _toggle_alerts(self) -> None:
        """Ask the browser, which asks its user, to show what becomes worse; or no longer do."""
        if self._alerting:
            ui.run_javascript("localStorage.setItem('ckwatch-alerts', 'off')")
            self._set_alerting(False)
            return
        answer = await ui.run_javascript(_ASK, timeout=ANSWER_S)
        self._set_alerting(answer == "granted")
        if not self._alerting:
            ui.notify("This browser does not let the page show alerts: its settings for this site can.")

    def _set_alerting(self, alerting: bool) -> None:
        """The button says what is so, and screen readers hear whether it is pressed."""
        self._alerting = alerting
        self._alert_button.text = "Alerts on" if alerting else "Alerts off"
        self._alert_button.props(f"aria-pressed={str(alerting).lower()}")

    def _toggle_theme(self) -> None:
        dark = not self._screen.dark
        self._theme = "dark" if dark else "light"
        self._screen = replace(self._screen, dark=dark)
        self._dark.value = dark
        ui.run_javascript(f"localStorage.setItem('ckwatch-theme', '{self._theme}')")
        self._repaint()

    def _repaint(self) -> None:
        for drawn in self._drawn.values():
            if isinstance(drawn.block, Plot):
                drawn.change(drawn.block)


def _choices(content: Content | None) -> tuple[Choice, ...]:
    return () if content is None else tuple(block for block in content.blocks if isinstance(block, Choice))


def _element(tag: str, text: str) -> TextElement:
    """An element with text, which is never read as HTML."""
    return TextElement(tag=tag, text=text)


def _sentence(text: str) -> None:
    """Draw a text with its code as code."""
    for part, code in spans(text):
        _element("code" if code else "span", part)


def _text(text: str) -> str:
    """As a JavaScript string."""
    return json.dumps(text)


def _attribute(text: str) -> str:
    """Text within the quotes of NiceGUI's `props`."""
    return text.replace("\\", "").replace('"', "'")
