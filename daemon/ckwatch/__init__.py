"""Watch Composable Kernel templates, compile them with hipcc, and put every message in its place."""

__version__ = "0.1.0"
