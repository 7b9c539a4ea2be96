"""The client: how Python programs, the command line and the language server talk to a workspace's daemon.

from ckwatch import connect

async with connect("path/in/workspace") as ckwatch:
    result = await ckwatch.build("gemm_f16")
"""

from ckwatch.client.client import Client, connect
from ckwatch.client.errors import DaemonGoneError, DaemonSilentError
from ckwatch.workspace.discovery import find_workspace

__all__ = ["Client", "DaemonGoneError", "DaemonSilentError", "connect", "find_workspace"]
