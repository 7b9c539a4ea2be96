"""Commands that look at timings: their client, and the unit that a word means, there or gone."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from anyio import to_thread

from ckwatch.cli import connecting
from ckwatch.cli.connecting import one_unit, start_of
from ckwatch.cli.signals import stoppable
from ckwatch.client import Client
from ckwatch.errors import UnknownUnitError


@asynccontextmanager
async def asking(options: argparse.Namespace, words: Sequence[str] = ()) -> AsyncIterator[Client]:
    """The client of a command whose workspace is that of `-C`, of the first path among `words`, or here."""
    async with stoppable():
        start = await to_thread.run_sync(start_of, options, words)
        async with connecting.connected(options, start) as client:
            yield client


async def unit_of(client: Client, word: str) -> str:
    """The id of the unit that `word` means; one that is there no more is meant by its whole id, if it has timings.

    Raises as `one_unit`.
    """
    try:
        return await one_unit(client, word)
    except UnknownUnitError as error:
        if "/" in word and "@" in word:
            with suppress(UnknownUnitError):
                if await client.timings(word, limit=1):
                    return word
        raise error from None
