"""What the compiler is asked for, by the settings of the workspace and the kernel file."""

from __future__ import annotations

from ckwatch.compile.request import CompileRequest
from ckwatch.config.workspace import Workspace
from ckwatch.model.kernel import Unit
from ckwatch.model.language import language_of
from ckwatch.render.outcome import Rendered


def compile_request(workspace: Workspace, unit: Unit, rendered: Rendered) -> CompileRequest:
    """The compile of one rendered unit."""
    settings = workspace.settings.compile
    return CompileRequest(
        source=rendered.text,
        symbol=rendered.symbol,
        language=language_of(unit.kernel.template),
        arch=unit.arch,
        flags=(*settings.flags, *unit.kernel.flags),
        defines=tuple(_define(name, value) for name, value in settings.defines.items()),
        timeout_s=settings.timeout_s,
        nice=settings.nice,
        kernel=unit.kernel.name,
    )


def _define(name: str, value: str | int | bool) -> str:
    if isinstance(value, bool):
        return name if value else f"{name}=0"
    return f"{name}={value}"
