"""What a code object tells without a GPU, as clients see it. Everything predicted is called so."""

from __future__ import annotations

from ckwatch.analysis.prediction import Prediction
from ckwatch.analysis.rank import Placed
from ckwatch.analysis.report import CodeObjectReport
from ckwatch.wire.value import Value


class ShapePrediction(Value):
    """What is predicted on a shape, and the time in microseconds of the same artifact as measured on `device`."""

    shape: str
    prediction: Prediction
    measured_us: float | None = None
    device: str = ""


class Analysis(Value):
    """A unit's artifact, `fresh` where it belongs to the present input.

    `previous` is the report of the artifact before, if the daemon has looked at it. `lds_limit_bytes`: of a workgroup.
    """

    unit: str
    artifact_key: str
    fresh: bool
    report: CodeObjectReport
    shapes: tuple[ShapePrediction, ...] = ()
    previous: CodeObjectReport | None = None
    lds_limit_bytes: int | None = None


class PredictedRanking(Value):
    """The instances of a kernel on a shape, for one arch, by predicted time on `part`; `measured_us` by instance."""

    kernel: str
    shape: str
    arch: str
    part: str
    cache: str
    rows: tuple[Placed, ...]
    measured_us: dict[str, float]
