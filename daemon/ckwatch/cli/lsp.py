"""`ckwatch lsp`: the language server."""

from __future__ import annotations

import argparse


def run(options: argparse.Namespace) -> int:
    """Serve one editor until it ends."""
    from ckwatch_lsp.main import main

    return main(options.resume)
