"""`ckwatch shapes import FILE…`: shapes from logs and traces, with how often each was called."""

from __future__ import annotations

import argparse
import csv
import io
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from anyio import to_thread

from ckwatch.bench.imports.shape_logs import LoggedShape, read_shape_log
from ckwatch.cli.output import Output
from ckwatch.cli.tune import check_target
from ckwatch.model.amounts import count
from ckwatch.model.errors import CkwatchError
from ckwatch.system.user_files import read_file
from ckwatch.tuning.winners import write_file

SHOWN = 20
LARGEST_BYTES = 1 << 30
GZIP = b"\x1f\x8b"


def read_logs(paths: Sequence[Path]) -> tuple[LoggedShape, ...]:
    """The shapes of several logs together, the most frequent first. Blocks; call from a worker thread. Raises
    CkwatchError."""
    counts: Counter[str] = Counter()
    shapes: dict[str, LoggedShape] = {}
    for path in paths:
        try:
            content = read_file(path, LARGEST_BYTES)
            if content.startswith(GZIP):
                whole = zlib.decompressobj(wbits=31)
                content = whole.decompress(content, LARGEST_BYTES)
                if not whole.eof:
                    raise CkwatchError(f"{path} is cut off, or larger than {LARGEST_BYTES >> 20} MiB unpacked")
            text = content.decode("utf-8")
        except OSError as error:
            raise CkwatchError(f"{path} cannot be read: {error.strerror or error}") from None
        except (UnicodeDecodeError, zlib.error):
            raise CkwatchError(f"{path} is not a text file", "a log is text, or text packed with gzip") from None
        for one in read_shape_log(text, str(path)):
            counts[one.name] += one.count
            shapes[one.name] = one
    return tuple(LoggedShape(shapes[name].sizes, number) for name, number in counts.most_common())


async def import_(options: argparse.Namespace) -> int:
    """Print the shapes of logs, or write them as CSV or as tables of a kernel file."""
    for path in (options.csv, options.toml):
        if path is not None:
            check_target(path, f".{'csv' if path is options.csv else 'toml'}")
    shapes = (await to_thread.run_sync(read_logs, options.files))[: options.top]
    output = Output(options)
    for path, text in ((options.csv, csv_text(shapes)), (options.toml, toml_text(shapes))):
        if path is not None:
            await to_thread.run_sync(write_file, path, text)
            output.text(f"wrote {path.absolute()}")
    output.answer(shapes=shapes)
    rows = [[one.name, f"{one.count:,}"] for one in shapes[:SHOWN]]
    output.table(rows, heading=("SHAPE", "CALLS"), indent="")
    if len(shapes) > SHOWN:
        output.text(f"and {count(len(shapes) - SHOWN, 'shape')} more")
    return 0


def csv_text(shapes: Sequence[LoggedShape]) -> str:
    """A line for each shape: sizes and count."""
    names = dict.fromkeys(name for one in shapes for name in one.sizes)
    text = io.StringIO()
    writer = csv.DictWriter(text, [*names, "count"], restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({**one.sizes, "count": one.count} for one in shapes)
    return text.getvalue()


def toml_text(shapes: Sequence[LoggedShape]) -> str:
    """A `[[shape]]` table for each shape."""
    blocks = []
    for one in shapes:
        sizes = "".join(f"{name} = {size}\n" for name, size in one.sizes.items())
        blocks.append(f"# called {one.count:,} times\n[[shape]]\n{sizes}")
    return "\n".join(blocks)
