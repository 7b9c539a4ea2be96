"""`ckwatch render`: a unit's C++ text, or where each piece of it came from."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from ckwatch.cli.diagnostic_text import display_path
from ckwatch.cli.output import JSON_SCHEMA, Output, diagnostic_of, diagnostic_to_json, span_of, span_to_json
from ckwatch.cli.session import connected, one_unit, start_of
from ckwatch.model.text import LineIndex

if TYPE_CHECKING:
    from ckwatch.wire.messages import RenderedText, Segment


def run(options: argparse.Namespace) -> int:
    """Print the text, the map, or both as JSON. 1 when the template has errors."""
    return anyio.run(partial(_run, options))


async def _run(options: argparse.Namespace) -> int:
    start = await to_thread.run_sync(start_of, options, ())
    async with connected(options, start) as client:
        unit = await one_unit(client, options.unit)
        rendered = await client.rendered(unit, with_map=options.map or options.json)
        output = Output(options, client.root)
    if options.json:
        output.line(schema=JSON_SCHEMA, unit=unit, **_json(rendered))
    elif rendered.text is None:
        output.diagnostics([diagnostic_of(found) for found in rendered.diagnostics])
    elif options.map:
        _print_map(rendered, rendered.text, str(client.root))
    else:
        sys.stdout.write(rendered.text)
    return 0 if rendered.text is not None else 1


def _print_map(rendered: RenderedText, source: str, root: str) -> None:
    """One line per segment: `rendered-line:column  text  ->  file:line:column  <- chain`, counted from one."""
    lines = LineIndex(source)
    for segment in rendered.map or ():
        text = source[segment.start : segment.end]
        shown = repr(text if len(text) <= 40 else text[:37] + "…")[1:-1]
        at = segment.position
        place = f"{display_path(segment.span.path, root)}:{at['line'] + 1}:{at['column'] + 1}"
        kind = "" if segment.verbatim else f" {segment.label!r}"
        doubt = "" if segment.exact else " (approximate)"
        links = []
        for link in segment.chain:
            round_number = f" round {link.iteration + 1}" if link.iteration is not None else ""
            where = span_of(link.span)
            links.append(f"{link.label!r}{round_number} at {display_path(where.path, root)}:{where.start}")
        chain = "".join(f"\n{'':12}<- {link}" for link in links)
        position = lines.position(segment.start)
        sys.stdout.write(f"{position!s:>10}  {shown:<42} -> {place}{kind}{doubt}{chain}\n")


def _json(rendered: RenderedText) -> dict[str, Any]:
    common: dict[str, Any] = {
        "diagnostics": [diagnostic_to_json(diagnostic_of(found)) for found in rendered.diagnostics],
        "read": dict(rendered.read),
        "missed": list(rendered.missed),
    }
    if rendered.text is None:
        return common | {"text": None}
    return common | {
        "text": rendered.text,
        "symbol": rendered.symbol,
        "token_key": rendered.token_key,
        "map": [_segment(segment) for segment in rendered.map or ()],
    }


def _segment(segment: Segment) -> dict[str, Any]:
    return {
        "start": segment.start,
        "end": segment.end,
        "verbatim": segment.verbatim,
        "exact": segment.exact,
        "position": segment.position,
        "span": span_to_json(span_of(segment.span)),
        "label": segment.label,
        "chain": [
            {
                "kind": link.kind,
                "label": link.label,
                "iteration": link.iteration,
                "span": span_to_json(span_of(link.span)),
            }
            for link in segment.chain
        ],
    }
