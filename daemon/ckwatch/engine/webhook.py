"""Posts alerts to the address that `[daemon] webhook` or the environment names.

The address may hold a secret, as those of chat services do: messages and logs name its host alone. Only daemons of
trusted workspaces run, so an untrusted workspace posts nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import anyio
from anyio import to_thread

from ckwatch.engine.change_feed import ChangeFeed
from ckwatch.model.delays import ALERTS, WEBHOOK_RETRY
from ckwatch.wire.alerts import Alert, Standing, alerts, standing_of
from ckwatch.wire.state import Unit

log = logging.getLogger(__name__)

VARIABLE = "CKWATCH_WEBHOOK"
"""Names the address of a user, for all workspaces that name none."""

TRIES = 3
TIMEOUT_S = 10.0
MOST_ALERTS = 20
"""Of one post; it says how many more there are."""

TOPICS_AT_ONCE = 1000


class WebhookError(Exception):
    """The post failed; `again`: another try may succeed."""

    def __init__(self, why: str, *, again: bool) -> None:
        super().__init__(why)
        self.again = again


def message(workspace: str, found: Sequence[Alert]) -> dict[str, Any]:
    """The JSON of a post; `text` is what chat services show."""
    shown = [one.line for one in found[:MOST_ALERTS]]
    more = [f"and {len(found) - MOST_ALERTS} more"] if len(found) > MOST_ALERTS else []
    rows = [{"kind": one.kind, "unit": one.unit, "text": one.text} for one in found[:MOST_ALERTS]]
    return {
        "workspace": workspace, "alerts": rows, "count": len(found),
        "text": "\n".join((f"ckwatch, {workspace}:", *shown, *more)),
    }  # fmt: skip


def post(address: str, content: Mapping[str, Any]) -> None:
    """Post JSON. Blocks; raises WebhookError, whose text does not hold the address."""
    from http.client import HTTPException, RemoteDisconnected, responses
    from urllib.error import HTTPError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class NoRedirects(HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            """Follow none: the address is to be that of the service itself."""

    reasons = {  # for errors that have no words of their own, or some that hold the address
        TimeoutError: f"no answer within {TIMEOUT_S:.0f} s",
        RemoteDisconnected: "the connection was closed without an answer",
        HTTPException: "the answer is not HTTP",
    }
    require_address(address)
    headers = {"Content-Type": "application/json", "User-Agent": "ckwatch"}
    try:
        request = Request(address, json.dumps(content).encode(), headers)  # noqa: S310  # see above
        with build_opener(NoRedirects).open(request, timeout=TIMEOUT_S):
            return
    except HTTPError as error:
        with error:
            again = error.code == HTTPStatus.TOO_MANY_REQUESTS or error.code >= HTTPStatus.INTERNAL_SERVER_ERROR
            phrase = f" ({responses[error.code]})" if error.code in responses else ""
            raise WebhookError(f"HTTP {error.code}{phrase}", again=again) from None
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        words = (words for kind, words in reasons.items() if isinstance(reason, kind))
        why = getattr(reason, "strerror", None) or next(words, type(reason).__name__)
        raise WebhookError(why, again=True) from None


def require_address(address: str) -> None:
    """Raise WebhookError for what is no address of a web server."""
    if not address.startswith(("https://", "http://")):
        raise WebhookError("its address begins with neither https:// nor http://", again=False)
    try:
        parts = urlsplit(address)
        is_address = bool(parts.hostname) and parts.port != 0 and address.isprintable() and " " not in address
    except ValueError:
        is_address = False
    if not is_address:
        raise WebhookError("its address is not one of a web server", again=False)


class Webhook:
    """Follows the units of a workspace as they are on disk, and posts what becomes worse."""

    def __init__(
        self,
        workspace: str,
        feed: ChangeFeed,
        unit: Callable[[str], Unit | None],
        address: Callable[[], str],
        warn: Callable[[str | None], Awaitable[None]],
        names: Callable[[], Iterable[str]],
    ) -> None:
        """`unit` returns one as it is now, `names` those of all; `address` is empty where nothing is to be posted;
        `warn` shows a sentence to clients, or takes the last one back."""
        self._workspace = workspace
        self._feed = feed
        self._unit = unit
        self._address = address
        self._warn = warn
        self._names = names
        self._known: dict[str, Standing] | None = None
        """None while nothing is to be posted."""
        self._warned = False

    async def run(self, scope: str) -> None:
        """Post what becomes worse after this call, until cancelled."""
        seq = self._feed.seq
        if address := self._address():
            self.look(())
            try:
                require_address(address)
            except WebhookError as error:
                await self._fail(address, error)
        while True:
            await self._feed.wait(seq)
            await anyio.sleep(ALERTS.seconds)
            changed, until = set[str](), self._feed.seq
            while some := self._feed.after(scope, seq, TOPICS_AT_ONCE, until):
                seq = some[-1][0]
                changed |= {topic.name for _, topic in some if topic.kind == "unit"}
            seq = until
            if not (address := self._address()):
                self._known = None
            elif found := self.look(sorted(changed)):
                await self._post(address, message(self._workspace, found))

    def look(self, names: Iterable[str]) -> list[Alert]:
        """Those of these units that have become worse since they were looked at last; none at the first look, which is
        at all units."""
        if self._known is None:
            units = ((name, self._unit(name)) for name in self._names())
            self._known = {name: standing_of(unit) for name, unit in units if unit is not None}
            return []
        found: list[Alert] = []
        for name in names:
            unit = self._unit(name)
            before = self._known.pop(name, Standing())
            if unit is not None:
                now = self._known[name] = standing_of(unit)
                found += alerts(name, before, now)
        return found

    async def _post(self, address: str, content: Mapping[str, Any]) -> None:
        for left in reversed(range(TRIES)):
            try:
                await to_thread.run_sync(post, address, content, abandon_on_cancel=True)
            except WebhookError as error:
                if error.again and left:
                    await anyio.sleep(WEBHOOK_RETRY.seconds)
                    continue
                await self._fail(address, error)
                return
            if self._warned:
                await self._warn(None)
                self._warned = False
            return

    async def _fail(self, address: str, error: WebhookError) -> None:
        text = f"the webhook{_host(address)} takes no alerts: {error}"
        log.warning("%s", text)
        await self._warn(text)
        self._warned = True


def _host(address: str) -> str:
    with suppress(ValueError):
        if host := urlsplit(address).hostname:
            return f" at {host}"
    return ""
