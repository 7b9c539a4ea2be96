"""The command line: `ckwatch COMMAND …`.

Exit status: 0, 1 (errors in kernels), 2 (usage or environment), 130 (interrupted).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from ckwatch.cli.parser import make_parser
from ckwatch.cli.signals import INTERRUPTED, TerminatedError
from ckwatch.model.errors import CkwatchError, DiagnosedError

# Looking for plug-ins of pydantic, which ckwatch does not use, takes longer than loading pydantic.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def run() -> NoReturn:
    """The program: run `main` and end the process at once.

    Everything has been closed by then; taking the interpreter apart module by module would take a tenth of the time of
    a build that finds everything in the store.
    """
    status = main()
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. A user's mistake is a message on stderr, never a traceback."""
    options = make_parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except DiagnosedError as error:
        from ckwatch.cli.output import Output  # the printing room is loaded when something is printed

        Output(options).diagnostics(error.diagnostics)
        return 2
    except CkwatchError as error:
        print(f"ckwatch: error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"ckwatch: help: {error.hint}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("ckwatch: interrupted", file=sys.stderr)
        return INTERRUPTED
    except TerminatedError as error:
        print(f"ckwatch: {error}", file=sys.stderr)
        return 128 + error.number
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status
