"""`ckwatch render`: a unit's C++ text, or where each piece of it came from."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from ckwatch.cli.diagnostic_text import display_path
from ckwatch.cli.mistakes import explained, report_mistakes
from ckwatch.cli.output import Output, write_file
from ckwatch.cli.session import asked_patterns, asking, one_unit
from ckwatch.model.amounts import count
from ckwatch.model.errors import CkwatchError
from ckwatch.model.text import LineIndex

if TYPE_CHECKING:
    from ckwatch.wire.messages import RenderedText


async def run(options: argparse.Namespace) -> int:
    """Print the text, the map, or both as JSON. 1 when the template has errors."""
    if options.out is not None:
        return await _write_all(options)
    if options.unit is None:
        raise CkwatchError("render prints one unit", "name it, or give --out DIR for all")
    async with asking(options) as client:
        unit = await one_unit(client, options.unit)
        rendered = await client.rendered(unit, with_map=options.map or options.json)
        output = Output(options, client.root)
    if options.json:
        output.answer(rendered)
    elif rendered.text is None:
        output.diagnostics(rendered.diagnostics)
    elif options.map:
        _print_map(rendered, rendered.text, str(client.root))
    else:
        sys.stdout.write(rendered.text)
    return 0 if rendered.text is not None else 1


def shell_line(rendered: RenderedText) -> str:
    """A line for a shell that renders the unit and compiles its text; empty without a text or a compiler."""
    if not rendered.command:
        return ""
    render = f"ckwatch render {shlex.quote(rendered.unit)} > {rendered.source_name}"
    own = [f"{name}={shlex.quote(text)}" for name, text in rendered.environment.items()]
    return f"{render} && {' '.join([*own, shlex.join(rendered.command)])}"


DATABASE = "compile_commands.json"


async def _write_all(options: argparse.Namespace) -> int:
    """Write the text of each unit, and the compilation database with which clangd and clang-tidy understand them."""
    given = [name for name in ("map", "json") if getattr(options, name)]
    if given:
        raise CkwatchError(f"--out and --{given[0]} do not go together", "leave one of them out")
    folder = await to_thread.run_sync(options.out.absolute)
    commands: list[dict[str, Any]] = []
    failed = 0
    async with asking(options) as client:
        output = Output(options, client.root)
        await client.sync()
        words = () if options.unit is None else (options.unit,)
        patterns = await asked_patterns(client, words)
        async with explained(client, *patterns):
            units = await client.units(*patterns)
        mistakes = await report_mistakes(client, output, patterns)
        for unit in units:
            rendered = await client.rendered(unit.id)
            if rendered.text is None:
                failed += 1
                output.diagnostics(rendered.diagnostics)
                continue
            name = unit.id.replace("/", ".") + Path(rendered.source_name).suffix
            await to_thread.run_sync(write_file, folder / name, rendered.text.encode())
            if rendered.command:
                call = [name if word == rendered.source_name else word for word in rendered.command]
                call[0] = rendered.clang
                commands.append({"directory": str(folder), "file": name, "arguments": call})
        database = json.dumps(commands, indent=1) + "\n"
        await to_thread.run_sync(write_file, folder / DATABASE, database.encode())
    without = "" if commands or failed or not units else "; there is no compiler, so it is empty"
    wrong = f"; {mistakes.summary}" if mistakes.summary else ""
    output.text(f"wrote {count(len(commands), 'entry', 'entries')} of {folder / DATABASE}{without}{wrong}")
    return 1 if failed or mistakes.are_errors else 0


def _print_map(rendered: RenderedText, source: str, root: str) -> None:
    """One line per segment: `rendered-line:column  text  ->  file:line:column  <- chain`, counted from one."""
    lines = LineIndex(source)
    for segment in rendered.map or ():
        text = source[segment.start : segment.end]
        shown = repr(text if len(text) <= 40 else text[:37] + "…")[1:-1]
        at = segment.position
        place = f"{display_path(segment.span.path, root)}:{at.line + 1}:{at.column + 1}"
        kind = "" if segment.verbatim else f" {segment.label!r}"
        doubt = "" if segment.exact else " (approximate)"
        links = []
        for link in segment.chain:
            round_number = f" round {link.iteration + 1}" if link.iteration is not None else ""
            where = link.span
            links.append(f"{link.label!r}{round_number} at {display_path(where.path, root)}:{where.start}")
        chain = "".join(f"\n{'':12}<- {link}" for link in links)
        position = lines.position(segment.start)
        sys.stdout.write(f"{position!s:>10}  {shown:<42} -> {place}{kind}{doubt}{chain}\n")
