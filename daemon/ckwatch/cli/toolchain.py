"""`ckwatch doctor` and `ckwatch toolchain …`."""

from __future__ import annotations

import argparse
from functools import partial

import anyio

from ckwatch.toolchain.commands import doctor_command, install_command, list_command, remove_command


def doctor(options: argparse.Namespace) -> int:
    """Report on the environment; 2 when something needed is missing."""
    return doctor_command(workspace=options.workspace, as_json=options.json, smoke=options.smoke, quiet=options.quiet)


def install(options: argparse.Namespace) -> int:
    """Install a private toolchain."""
    return anyio.run(partial(install_command, mirror=options.mirror, force=options.force, quiet=options.quiet))


def list_installed(_options: argparse.Namespace) -> int:
    """List what `install` has made."""
    return list_command()


def remove(options: argparse.Namespace) -> int:
    """Remove one of them."""
    return remove_command(options.name)
