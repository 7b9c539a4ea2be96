"""Find, install and examine the compiler: ROCm, Composable Kernel and what lies around them."""

from ckwatch.toolchain.discover import discover
from ckwatch.toolchain.model import Chosen, Headers, Toolchain, ToolchainChoice, ToolchainSource

__all__ = ["Chosen", "Headers", "Toolchain", "ToolchainChoice", "ToolchainSource", "discover"]
