"""The client: how Python programs, the command line and the language server talk to a workspace's daemon.

from ckwatch import connect

async with connect("path/in/workspace") as ckwatch:
    result = await ckwatch.build("gemm_f16")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a command that needs no event loop does not load one
    from ckwatch.client.client import Client, connect
    from ckwatch.model.errors import DaemonGoneError, DaemonSilentError
    from ckwatch.workspace.discovery import find_workspace

__all__ = ["Client", "DaemonGoneError", "DaemonSilentError", "connect", "find_workspace"]

_PLACES = {
    "Client": "client.client",
    "DaemonGoneError": "model.errors",
    "DaemonSilentError": "model.errors",
    "connect": "client.client",
    "find_workspace": "workspace.discovery",
}


def __getattr__(name: str) -> object:
    if name in _PLACES:
        return getattr(import_module(f"ckwatch.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'ckwatch.client' has no attribute '{name}'")
