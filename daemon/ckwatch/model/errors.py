"""Every exception that ckwatch raises on purpose, split by whose fault it is.

A compile error is not among them: it is a value (`ckwatch.model.diagnostics.Diagnostic`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.names import in_message


class CkwatchError(Exception):
    """Base of all errors that are shown to a user without a traceback.

    `message` says what is wrong, `hint` what to do about it.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        message = in_message(message)
        super().__init__(message)
        self.message = message
        self.hint = None if hint is None else in_message(hint)

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class DiagnosedError(CkwatchError):
    """An error in a user's file; `diagnostics` holds every problem with its place, at least one."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...], hint: str | None = None) -> None:
        first = diagnostics[0]
        more = f" (and {len(diagnostics) - 1} more)" if len(diagnostics) > 1 else ""
        super().__init__(f"{first.span}: {first.message}{more}", hint)
        self.diagnostics = diagnostics


class TemplateError(DiagnosedError):
    """A template that cannot be loaded or rendered."""


class ToolchainError(CkwatchError):
    """The host lacks a compiler or headers, or a compiler failed in a way that says nothing of the kernel."""

    @classmethod
    def of(cls, text: str) -> ToolchainError:
        """The error whose text this is: its message, and in the last of several lines its hint."""
        message, _, hint = text.rpartition("\n")
        return cls(message or hint, hint if message else None)


class UnknownUnitError(CkwatchError):
    """No kernel, instance or unit has this name."""


class UntrustedError(CkwatchError):
    """The workspace is not trusted: its templates and compiler flags are code that would run here."""


class DeviceError(CkwatchError):
    """A device is missing, busy, or was lost."""


class ProtocolError(CkwatchError):
    """A peer sent something that this version does not understand."""


class DaemonGoneError(CkwatchError):
    """There is no daemon, or it went away before it had answered.

    `began`: it had the request, or part of it; doing it again may do it twice.
    """

    def __init__(self, message: str, hint: str | None = None, *, began: bool = False) -> None:
        super().__init__(message, hint)
        self.began = began


class DaemonSilentError(CkwatchError):
    """The daemon is there and does not answer."""


LOST_ERRORS = (DaemonGoneError, DaemonSilentError)
"""Whoever meets one may ask again: the daemon may come back."""


@asynccontextmanager
async def plain_errors() -> AsyncIterator[None]:
    """Raise the one error of a task group by itself: callers catch it by its own class. Of several, the first one that
    is meant for a user."""
    try:
        yield
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1 or all(isinstance(error, CkwatchError) for error in group.exceptions):
            raise group.exceptions[0] from None
        raise
