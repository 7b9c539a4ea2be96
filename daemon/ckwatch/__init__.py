"""Watch Composable Kernel templates, compile them with hipcc, and put every message in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckwatch.model.version import __version__

if TYPE_CHECKING:
    from ckwatch.client import connect

__all__ = ["__version__", "connect"]


def __getattr__(name: str) -> object:
    # the client brings anyio, which a command that needs none should not wait for
    if name == "connect":
        from ckwatch.client import connect

        return connect
    raise AttributeError(f"module 'ckwatch' has no attribute '{name}'")
