"""Predicted times of instances that AITER's tables name, for advice on rows that a neighbour's kernel would beat."""

from __future__ import annotations

from ckwatch.bench.imports.aiter_shapes import row_problem
from ckwatch.bench.imports.records import ImportedTiming
from ckwatch.prediction.predict import PredictionTarget, predict, target_of


class RowPredictions:
    """Predictions, each made once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str, tuple[tuple[str, int], ...], int], float | None] = {}

    def time_us(self, record: ImportedTiming, m: int) -> float | None:
        """Return the time of a row's kernel with another M; None where nothing predicts it."""
        sizes = {**record.sizes, "M": m}
        slices = int(record.runtime.get("kBatch", 1))
        key = (record.kernel, record.instance, record.device, tuple(sizes.items()), slices)
        if key not in self._known:
            self._known[key] = self._predicted(record, m)
        return self._known[key]

    def _predicted(self, record: ImportedTiming, m: int) -> float | None:
        target = _target(record)
        found = None if target is None else row_problem(record, m, target.arch)
        return None if target is None or found is None else predict(None, *found, target).time_us


def _target(record: ImportedTiming) -> PredictionTarget | None:
    """The part that a row was measured on, if it is one with a data sheet."""
    for arch in ("gfx942", "gfx950"):
        try:
            return target_of(arch, record.device)
        except ValueError:
            continue
    return None
