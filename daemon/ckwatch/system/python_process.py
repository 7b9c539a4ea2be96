"""Commands and environments for Python subprocesses, which never import from the folder that they run in.

`python -m` puts the working folder first on the module search path, and so does an empty entry of PYTHONPATH, which
`export PYTHONPATH=$PYTHONPATH:/opt/x` leaves behind. A `types.py` beside a user's kernel files would be executed.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping


def module_command(module: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs `module` in this Python; `-P` keeps the working folder off the search path."""
    return (sys.executable, "-P", "-m", module, *arguments)


def script_command(script: str) -> tuple[str, ...]:
    """The command that runs a file in this Python with the standard library alone, which starts fastest."""
    return (sys.executable, "-I", "-S", script)


def text_command(program: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs a program's text in this Python without the user's own modules."""
    return (sys.executable, "-I", "-c", program, *arguments)


def shell_python() -> str:
    """This Python as the start of a command line that a shell of another machine reads, with `-P`."""
    return f"{shlex.quote(sys.executable)} -P"


def module_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """A copy of `environment` (default: this process's) without the entries of PYTHONPATH that mean a folder relative
    to the working folder."""
    cleaned = dict(os.environ if environment is None else environment)
    entries = cleaned.pop("PYTHONPATH", "").split(os.pathsep)
    absolute = [entry for entry in entries if os.path.isabs(entry)]  # noqa: PTH117  # entries may be zip files
    if absolute:
        cleaned["PYTHONPATH"] = os.pathsep.join(absolute)
    return cleaned
