"""`ckwatch completion SHELL`, and the words that complete units, kernels and templates."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable

WANTED = "_ARGCOMPLETE"
"""Set by the shell when it asks for completions."""


def run(options: argparse.Namespace) -> int:
    """Print the shell's code."""
    from argcomplete.shell_integration import shellcode

    sys.stdout.write(shellcode(["ckwatch"], shell=options.shell))
    return 0


def complete(make_parser: Callable[[], argparse.ArgumentParser]) -> None:
    """Answer a shell that asks for completions, and end the process; otherwise do nothing."""
    if WANTED not in os.environ:
        return
    import argcomplete

    argcomplete.autocomplete(make_parser(), always_complete_options="long")


def names(kind: str) -> Callable[..., Iterable[str]]:
    """A completer for `units`, `kernels` or `templates` of the workspace: its files are read, nothing of it runs. Or
    for `commands` that have a schema."""

    def found(parsed_args: argparse.Namespace, **_: object) -> Iterable[str]:
        if kind == "commands":
            from ckwatch.cli.schema import next_words

            return next_words(parsed_args.words or ())

        from ckwatch.cli.templates import templates_of
        from ckwatch.model.errors import CkwatchError
        from ckwatch.workspace.discovery import find_workspace, working_folder
        from ckwatch.workspace.loading import load_workspace

        try:
            workspace = load_workspace(find_workspace(parsed_args.workspace or working_folder()))
        except CkwatchError:
            return ()
        if kind == "templates":
            return tuple(templates_of(workspace.template_folders))
        kernels = tuple(kernel.name for kernel in workspace.kernels)
        if kind == "kernels":
            return kernels
        return (*kernels, *dict.fromkeys(unit.id for unit in workspace.units))

    return found
