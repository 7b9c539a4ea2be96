"""Watch Composable Kernel templates, compile them with hipcc, and put every message in its place.

All that programs need is here: `connect` and `connect_sync`, the types of results, and the errors. Each is loaded when
it is first used, since a command that needs none should not wait for the client's libraries.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ckwatch.model.version import __version__

if TYPE_CHECKING:
    from ckwatch.client import Client, DaemonGoneError, DaemonSilentError, connect
    from ckwatch.client.blocking import SyncClient, connect_sync
    from ckwatch.client.builds import BuildResult, Sweep, UnitResult
    from ckwatch.model.diagnostics import Diagnostic, Fix, Related
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
    from ckwatch.model.figures import Figures
    from ckwatch.model.text import Position, Span
    from ckwatch.model.timings import Comparison, Timing
    from ckwatch.tuning.results import TuningRecord, TuningRun
    from ckwatch.wire.analysis import Analysis, Calibrated, Isa, OccupancySteps, PredictedRanking
    from ckwatch.wire.benchmarks import Baseline, BenchLine, Compared, Device, Devices, RankedTiming, TimingDetail
    from ckwatch.wire.language import ParameterValue, TemplateDetail, TemplateName, Vocabulary
    from ckwatch.wire.messages import Artifact, RenderedText, Run, TimeTrace, UnitDetail
    from ckwatch.wire.state import BuildLine, Cause, Change, File, ShownPlace, Status, Unit, Workspace, WorkspaceDetail

_MODULES = {
    "client": ("Client", "DaemonGoneError", "DaemonSilentError", "connect"),
    "client.blocking": ("SyncClient", "connect_sync"),
    "client.builds": ("BuildResult", "Sweep", "UnitResult"),
    "model.diagnostics": ("Diagnostic", "Fix", "Related"),
    "model.errors": (
        "CkwatchError",
        "DeviceError",
        "DiagnosedError",
        "ProtocolError",
        "TemplateError",
        "ToolchainError",
        "UnknownUnitError",
        "UntrustedError",
    ),
    "model.figures": ("Figures",),
    "model.text": ("Position", "Span"),
    "model.timings": ("Comparison", "Timing"),
    "tuning.results": ("TuningRecord", "TuningRun"),
    "wire.analysis": ("Analysis", "Calibrated", "Isa", "OccupancySteps", "PredictedRanking"),
    "wire.benchmarks": ("Baseline", "BenchLine", "Compared", "Device", "Devices", "RankedTiming", "TimingDetail"),
    "wire.language": ("ParameterValue", "TemplateDetail", "TemplateName", "Vocabulary"),
    "wire.messages": ("Artifact", "RenderedText", "Run", "TimeTrace", "UnitDetail"),
    "wire.state": (
        "BuildLine",
        "Cause",
        "Change",
        "File",
        "ShownPlace",
        "Status",
        "Unit",
        "Workspace",
        "WorkspaceDetail",
    ),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Analysis",
    "Artifact",
    "Baseline",
    "BenchLine",
    "BuildLine",
    "BuildResult",
    "Calibrated",
    "Cause",
    "Change",
    "CkwatchError",
    "Client",
    "Compared",
    "Comparison",
    "DaemonGoneError",
    "DaemonSilentError",
    "Device",
    "DeviceError",
    "Devices",
    "DiagnosedError",
    "Diagnostic",
    "Figures",
    "File",
    "Fix",
    "Isa",
    "OccupancySteps",
    "ParameterValue",
    "Position",
    "PredictedRanking",
    "ProtocolError",
    "RankedTiming",
    "Related",
    "RenderedText",
    "Run",
    "ShownPlace",
    "Span",
    "Status",
    "Sweep",
    "SyncClient",
    "TemplateDetail",
    "TemplateError",
    "TemplateName",
    "TimeTrace",
    "Timing",
    "TimingDetail",
    "ToolchainError",
    "TuningRecord",
    "TuningRun",
    "Unit",
    "UnitDetail",
    "UnitResult",
    "UnknownUnitError",
    "UntrustedError",
    "Vocabulary",
    "Workspace",
    "WorkspaceDetail",
    "__version__",
    "connect",
    "connect_sync",
]


def __getattr__(name: str) -> object:
    if name in _PLACES:
        return getattr(import_module(f"ckwatch.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'ckwatch' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
