"""The version of ckwatch, which the build of the package reads too."""

from __future__ import annotations

__version__ = "0.2.0"
