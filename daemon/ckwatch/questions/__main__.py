"""Prints docs/routes.md: `python -m ckwatch.questions > docs/routes.md`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

from ckwatch.questions.endpoint import AnyEndpoint
from ckwatch.questions.table import ENDPOINTS

HEAD = """\
# Routes of the daemon

For people who talk to a daemon without the Python client. `/v1/openapi.json` has the types;
[the daemon](daemon.md#http) shows requests. `UNIT` is `KERNEL/INSTANCE@ARCH`. Parameters are sent in the query,
those of POST and PUT as JSON.

| route, below `/v1` | parameters | |
|---|---|---|"""


def page() -> Iterator[str]:
    """The lines of the page."""
    yield HEAD
    for one in sorted(ENDPOINTS, key=lambda one: (one.path, one.method)):
        path = re.sub(r"{(\w+)}", lambda found: found[1].upper(), one.path)
        yield f"| `{one.method} {path}` | {', '.join(dict.fromkeys(_parameters(one)))} | {_summary(one)} |"


def _parameters(endpoint: AnyEndpoint) -> Iterator[str]:
    for one in endpoint.arguments:
        if one.place == "whole":
            yield from (f"`{name}`" for name in one.annotation.model_fields)
        elif one.place != "path":
            yield f"`{one.sent_as}`"
    if endpoint.viewed:
        yield "`client`"


def _summary(endpoint: AnyEndpoint) -> str:
    return " ".join((inspect.getdoc(endpoint) or "").partition("\n\n")[0].split()).replace("|", "\\|")


if __name__ == "__main__":
    print(*page(), sep="\n")
