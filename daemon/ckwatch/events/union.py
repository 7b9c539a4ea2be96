"""Everything that may happen: a closed union."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ckwatch.events.facts import (
    ArtifactFigures,
    CompileFacts,
    LoadedWorkspace,
    Options,
    RenderFacts,
    ShapeTiming,
    Unasked,
    Work,
)
from ckwatch.model.diagnostic import Diagnostic


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """`at` is the wall clock, Unix seconds, for display only."""

    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Loaded(Event):
    """The end of `Load`; `workspace` is None when it cannot be read, which `problem` explains."""

    work: Work
    workspace: LoadedWorkspace | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Scanned(Event):
    """The end of `Scan`: the tracked files whose contents are not what was last known, None for those not there."""

    work: Work
    digests: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Rendered(Event):
    """The end of `Render`."""

    work: Work
    facts: RenderFacts


@dataclass(frozen=True, slots=True)
class LookedUp(Event):
    """The end of `LookUp`; `facts` is None when the store has nothing."""

    work: Work
    facts: CompileFacts | None


@dataclass(frozen=True, slots=True)
class Checked(Event):
    """The end of `Check`, with what the host pass said."""

    work: Work
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Compiled(Event):
    """The end of `Compile`."""

    work: Work
    facts: CompileFacts


@dataclass(frozen=True, slots=True)
class Analyzed(Event):
    """The end of `Analyze`; `figures` is None when nothing is kept, or when nothing can be told."""

    work: Work
    figures: ArtifactFigures | None


@dataclass(frozen=True, slots=True)
class AnalyzeRequested(Event):
    """Somebody wants the figures of units that are built; with `again` also where they are known, as against what they
    are compared with has changed."""

    scope: str
    units: tuple[str, ...]
    again: bool = False


@dataclass(frozen=True, slots=True)
class Measured(Event):
    """The end of `Measure`; `timing` is None when the machine, not the kernel, is why there is none (`problem`)."""

    work: Work
    timing: ShapeTiming | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class MeasureRequested(Event):
    """Somebody wants timings of units that are built, on these shapes (None: all), on another `device` than the
    workspace's choice perhaps; with `force` also again. Requests are numbered upwards from 1."""

    number: int
    units: tuple[str, ...]
    shapes: tuple[str, ...] | None = None
    force: bool = False
    device: str | None = None


@dataclass(frozen=True, slots=True)
class MeasureDropped(Event):
    """Nobody wants the units timed any more, unless they are by themselves; with `everything` not even then."""

    units: tuple[str, ...]
    everything: bool = False


@dataclass(frozen=True, slots=True)
class Recorded(Event):
    """The end of `Record`; `problem` where the history could not be written."""

    work: Work
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Ended(Event):
    """The end of any work that was cancelled, or that failed by a fault of ours or the host's (`fault`)."""

    work: Work
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class CompileBegan(Event):
    """A compiler was started for this work."""

    work: Work


@dataclass(frozen=True, slots=True)
class Said(Event):
    """What the compilers of this work have said so far, mistakes among it."""

    work: Work
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class Narrowed(Event):
    """Of the two passes of this work one has ended."""

    work: Work


@dataclass(frozen=True, slots=True)
class FilesChanged(Event):
    """Files have other contents, None where they are gone. `reload`: kernels may have come, changed or gone."""

    digests: Mapping[str, str | None]
    reload: bool = False
    complete: bool = True


@dataclass(frozen=True, slots=True)
class OverlayChanged(Event):
    """A client lends the text of an unsaved buffer, or takes it back (None)."""

    client: str
    path: str
    text: str | None
    digest: str | None


@dataclass(frozen=True, slots=True)
class OptionsChanged(Event):
    """A client's view differs from the workspace in more than unsaved text."""

    client: str
    options: Options


@dataclass(frozen=True, slots=True)
class Focused(Event):
    """What a client looks at: these units come first. `everything`: it wants every unit built. `unsaved`: what of its
    unsaved texts is compiled."""

    client: str
    units: frozenset[str]
    everything: bool = False
    unsaved: Unasked = Unasked.EDITED


@dataclass(frozen=True, slots=True)
class BuildRequested(Event):
    """Somebody waits for fresh results of these units, of all for None, given as ids."""

    request: str
    scope: str
    patterns: tuple[str, ...] | None
    force: bool = False
    check_only: bool = False


@dataclass(frozen=True, slots=True)
class RequestDropped(Event):
    """Nobody waits for this request any more."""

    request: str


@dataclass(frozen=True, slots=True)
class CancelRequested(Event):
    """Stop compiling these units until they are edited or asked for."""

    scope: str
    units: frozenset[str]


@dataclass(frozen=True, slots=True)
class ClientLost(Event):
    """A client has gone; so has its view."""

    client: str


@dataclass(frozen=True, slots=True)
class MemoryMeasured(Event):
    """Memory that compilers may use: what is free now and what they hold already."""

    capacity_bytes: int


@dataclass(frozen=True, slots=True)
class Warned(Event):
    """Something of the host limits the daemon (`topic`: watch, store, history, …); None when it is over."""

    topic: str
    message: str | None


@dataclass(frozen=True, slots=True)
class ArtifactsLost(Event):
    """The store does not have these any more (`CompileFacts.artifact`), or has them damaged."""

    artifacts: frozenset[str]


@dataclass(frozen=True, slots=True)
class Continued(Event):
    """Go on with what was too much for one step."""


AnyEvent = (
    Loaded | Scanned | Rendered | LookedUp | Checked | Compiled | Analyzed | Measured | Recorded | Ended | CompileBegan
    | Said | Narrowed | FilesChanged | OverlayChanged | OptionsChanged | Focused | BuildRequested | RequestDropped
    | CancelRequested | ClientLost | AnalyzeRequested | MeasureRequested | MeasureDropped | MemoryMeasured | Warned
    | ArtifactsLost | Continued
)  # fmt: skip
