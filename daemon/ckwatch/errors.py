"""The errors that users of ckwatch meet; `ckwatch.model.errors` defines them."""

from __future__ import annotations

from ckwatch.model.errors import (
    CkwatchError,
    DeviceError,
    DiagnosedError,
    ProtocolError,
    TemplateError,
    ToolchainError,
    UnknownUnitError,
    UntrustedError,
)

__all__ = [
    "CkwatchError",
    "DeviceError",
    "DiagnosedError",
    "ProtocolError",
    "TemplateError",
    "ToolchainError",
    "UnknownUnitError",
    "UntrustedError",
]
