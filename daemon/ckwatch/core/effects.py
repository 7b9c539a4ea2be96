"""The effects that the core asks for: a closed union.

Work (`Load`, `Scan`, `Recall`, `Render`, `LookUp`, `Check`, `Compile`, `Analyze`, `Measure`, `Verify`, `Advise`,
`CheckWith`, `Record`) runs as a task and ends in exactly one event, also when it fails or is cancelled. All other
effects are done at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from ckwatch.bench.job import Race
from ckwatch.core.events import AnalysisDepth, CompileFacts, OtherToolchain, ViewOverrides, Work
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.kernels import Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.topics import Topic
from ckwatch.model.verification import Verification


@dataclass(frozen=True, slots=True)
class TaskEffect:
    """An effect on a task."""

    work: Work


@dataclass(frozen=True, slots=True)
class ViewWork(TaskEffect):
    """Work on a unit as a view has it."""

    unit: Unit
    overlays: Mapping[str, str]
    options: ViewOverrides


@dataclass(frozen=True, slots=True)
class Load(TaskEffect):
    """Read the workspace for the view `work.key.scope`. What is not urgent may wait for a quiet moment."""

    overlays: Mapping[str, str]
    options: ViewOverrides
    urgent: bool = True


@dataclass(frozen=True, slots=True)
class Scan(TaskEffect):
    """See which tracked files changed."""


@dataclass(frozen=True, slots=True)
class Recall(TaskEffect):
    """See which of the results that are remembered hold."""

    units: tuple[Unit, ...]
    """Of the workspace on disk; those of one kernel in a row."""
    settings: str
    """`LoadedWorkspace.settings`."""


class RenderPriority(IntEnum):
    """Whose render comes first."""

    LOOKED_AT = 0
    ASKED_FOR = 1
    OTHERS = 2


@dataclass(frozen=True, slots=True)
class Render(ViewWork):
    """Render and check a unit. `priority`: what somebody looks at or edits comes first, then what was asked for."""

    priority: RenderPriority = RenderPriority.OTHERS


@dataclass(frozen=True, slots=True)
class LookUp(ViewWork):
    """See whether the store has what the unit compiles to."""


@dataclass(frozen=True, slots=True)
class Check(ViewWork):
    """Run a unit's host pass, which reports most errors long before the device pass has ended."""

    awaited: bool = False
    """As of `Compile`."""


@dataclass(frozen=True, slots=True)
class Compile(ViewWork):
    """Compile a unit."""

    force: bool
    """Although the store has the result."""
    side_by_side: bool = False
    """Both passes at a time."""
    waiting: int = 0
    """How many others wait for a compiler."""
    awaited: bool = False
    """A client waits for the result or shows the unit: the compiler does not make way for other programs."""
    usual_s: float = 0.0
    """The longest compile that is known of its kernel; 0 where none is."""
    on_farm: bool = False
    """By a worker of the farm."""
    lines: bool = False
    """With line tables beside the artifact."""


@dataclass(frozen=True, slots=True)
class Analyze(TaskEffect):
    """Analyze the code object that a unit compiled to."""

    unit: Unit
    result: CompileFacts
    depth: AnalysisDepth
    previous_artifact: str = ""
    """The unit's last analyzed one, if that is known."""


@dataclass(frozen=True, slots=True)
class Measure(TaskEffect):
    """Time what a unit compiled to on a shape."""

    unit: Unit
    result: CompileFacts
    shape: str
    force: bool
    """Although the history has the timing."""
    device: str | None = None
    """None: the workspace's choice."""
    race: Race | None = None
    """It competes with others."""
    flush_instructions: bool = False
    """Whatever the workspace's choice is."""
    place: DeviceFacts | None = None
    """The device that has nothing else to do; None as long as the devices are not known."""
    last_device: str = ""
    """The key of the device that the shape was timed on before."""
    has_others: bool = False
    """Another device may do it, should this one be in use."""


@dataclass(frozen=True, slots=True)
class Verify(TaskEffect):
    """Execute what a unit compiled to on this machine's processor, and see whether it is right."""

    unit: Unit
    result: CompileFacts
    force: bool
    """Although the result is kept."""
    awaited: bool = False
    """A client waits for it, and wants it thorough."""
    checked: bool = True
    """Memory, races and waits are looked at too."""
    known: Verification | None = None
    """The result, of which only the places of findings in the present text are wanted."""


@dataclass(frozen=True, slots=True)
class Advise(TaskEffect):
    """Find out why the kernels that a unit compiled to use scratch or have few waves, and which change helps."""

    unit: Unit
    result: CompileFacts
    awaited: bool = False
    """A client waits for it."""


@dataclass(frozen=True, slots=True)
class CheckWith(ViewWork):
    """Check a unit with another toolchain than the workspace's, or build it."""

    toolchain: OtherToolchain
    build: bool = False
    force: bool = False
    """Although the store has the result."""
    awaited: bool = False
    """A client waits for it."""


@dataclass(frozen=True, slots=True)
class Record(TaskEffect):
    """Write results to the history: ids of units whose state changed, and of removed ones."""

    units: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cancel(TaskEffect):
    """Stop a task; its end still comes as an event."""


@dataclass(frozen=True, slots=True)
class Changed:
    """The state under a topic changed."""

    scope: str
    """The view whose followers are notified; MAIN: all."""
    topic: Topic
    """`unit/ID`, `file/PATH`, `workspace` or `show`."""


@dataclass(frozen=True, slots=True)
class Notify:
    """A line of the answer to a build request."""

    request: str
    unit: str | None
    """The unit that is settled; None: all are, and the answer ends."""
    problem: str | None = None
    """Why the unit has no result; without a unit, the pattern that matches none."""


@dataclass(frozen=True, slots=True)
class UpdateWatches:
    """The set of files to be watched has changed."""


@dataclass(frozen=True, slots=True)
class Continue:
    """Send `Continued` after whatever else waits."""


WorkEffect = (
    Load | Scan | Recall | Render | LookUp | Check | Compile | Analyze | Measure | Verify | Advise | CheckWith | Record
)
"""Effects that run as tasks."""

Effect = WorkEffect | Cancel | Changed | Notify | UpdateWatches | Continue
