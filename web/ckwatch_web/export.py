"""The same views as static HTML."""

from __future__ import annotations

import argparse


async def export(options: argparse.Namespace) -> int:
    """Write the views of a workspace as files."""
    raise NotImplementedError(options)
