"""The command line: `ckwatch COMMAND …`.

Exit status: 0, 1 (errors in kernels), 2 (usage or environment), 130 (interrupted).
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from ckwatch.cli import streams
from ckwatch.cli.completion import complete
from ckwatch.cli.parser import make_parser, parser_for
from ckwatch.cli.signals import INTERRUPTED, TerminatedError
from ckwatch.model.errors import CkwatchError, DiagnosedError
from ckwatch.system.processes import own_age_s

# Looking for plug-ins of pydantic, which ckwatch does not use, takes longer than loading pydantic.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

YOUNG_OBJECTS = 50_000
"""After how many new objects garbage is collected. By default it is 700: next to nothing that a command makes while it
is loaded is garbage, and looking for it takes a tenth of its time."""


def run() -> NoReturn:
    """The program: run `main` and end the process at once.

    Everything has been closed by then; taking the interpreter apart module by module would take a tenth of the time of
    a build that finds everything in the store.
    """
    status = INTERRUPTED
    gc.set_threshold(YOUNG_OBJECTS)
    with suppress(KeyboardInterrupt):  # another Ctrl-C, when the first has been reported
        streams.guard()
        if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:  # as `ckwatch.__main__` left it
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            status = main(age_s=own_age_s())
        except SystemExit as ended:  # of argparse
            status = ended.code if isinstance(ended.code, int) else 0
    os._exit(status)


def main(arguments: Sequence[str] | None = None, *, age_s: float = 0.0, **dependencies: object) -> int:
    """Run one command and return its exit status. A user's mistake is a message on stderr, never a traceback.

    The command began `age_s` ago; what it says of its time counts from there (`options.begun`, monotonic).
    `dependencies` replace, by name, what commands look up with `dependency`.
    """
    options: Namespace | None = None
    begun = time.monotonic() - age_s
    try:
        try:
            complete(make_parser)
            given = sys.argv[1:] if arguments is None else arguments
            options = parser_for(given).parse_args(given, Namespace(begun=begun, dependencies=dependencies))
            status: int = options.run(options)
        finally:
            if getattr(options, "trust_once", False):
                from ckwatch.workspace.trust import end_trust_once

                end_trust_once()
            sys.stdout.flush()
    except BaseException as error:
        cause = _cause(error)
        ended = _reported(cause, options)
        if ended is None:
            if cause is error:
                raise
            raise cause from None
        return ended
    return status


def _cause(error: BaseException) -> BaseException:
    """The error in a group that all other errors in it may follow from: nested tasks end together."""
    while isinstance(error, BaseExceptionGroup):
        meant = (CkwatchError, KeyboardInterrupt, TerminatedError, streams.ReaderGoneError, BaseExceptionGroup)
        error = next((one for one in error.exceptions if not isinstance(one, meant)), error.exceptions[0])
    return error


def _reported(error: BaseException, options: Namespace | None) -> int | None:
    """Say what is wrong; the exit status, or None for an error that is ours."""
    match error:
        case DiagnosedError() if options is not None:
            from ckwatch.cli.output import Output  # the printing room is loaded when something is printed

            try:
                output = Output(options)
                output.report(error.diagnostics, exit_status=1)
                output.diagnostics(error.diagnostics)
                sys.stdout.flush()
            except (CkwatchError, streams.ReaderGoneError) as unwritten:
                return _reported(unwritten, None)
            return 1
        case CkwatchError():
            print(f"ckwatch: error: {error.message}", file=sys.stderr)
            if error.hint:
                print(f"ckwatch: help: {error.hint}", file=sys.stderr)
            return 2
        case KeyboardInterrupt():
            print("ckwatch: interrupted", file=sys.stderr)
            return INTERRUPTED
        case TerminatedError():
            print(f"ckwatch: {error}", file=sys.stderr)
            return 128 + error.number
        case streams.ReaderGoneError() | BrokenPipeError():
            return 0
    return None
