"""Winners in the kernel file: what is there stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from cases.tuning_spaces import record
from ckwatch.model.errors import CkwatchError
from ckwatch.tuning.dispatch import dispatch_set
from ckwatch.tuning.results import EvaluatedPoint, EvaluationStatus, ShapeResult, TuningRecord
from ckwatch.tuning.tuned_kernel import TunedKernel, read_tuned_kernel
from ckwatch.tuning.winners import write_winners
from ckwatch.workspace.loading import load_workspace
from helpers.workspaces import gemm_kernel

SHAPES = {"square": {"M": 64, "N": 64, "K": 64}, "thin": {"M": 16, "N": 64, "K": 64}}
KERNEL = f"""{gemm_kernel("k.cpp.j2", {"one": {"Tile": 1, "Flag": True}}, dtype="f32", shapes=SHAPES)}
[[sweep]]  # a space
name = "s"
tune = true
parameters = {{ Tile = [1, 2, 4], Flag = true }}

[defaults]
Flag = true
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "templates").mkdir()
    (tmp_path / "ckwatch.toml").write_text("")
    (tmp_path / "templates/k.cpp.j2").write_text(
        'extern "C" {{ def_kernel(inputs=[X, W], outputs=[Y]) }} { /* {{ Tile }} {{ Flag }} */ }\n'
    )
    (tmp_path / "k.kernel.toml").write_text(KERNEL)
    return tmp_path


def tuned_kernel_of(root: Path) -> TunedKernel:
    return read_tuned_kernel(root, "k", arch=None, shapes=None, listed=None, seed=0)


def record_of(tuned: TunedKernel, times: Mapping[int, Mapping[str, float]]) -> TuningRecord:
    """A run in which the instances with these tiles took so many microseconds on shapes."""
    points = []
    for order, (tile, own) in enumerate(times.items(), 1):
        parameters = {"Flag": True, "Tile": tile}
        point = tuned.point_of(parameters) if tile != 1 else next(iter(tuned.names))
        assert point is not None
        results = tuple(
            ShapeResult(shape=shape, status=EvaluationStatus.MEASURED, median_us=time_us)
            for shape, time_us in own.items()
        )
        points.append(
            EvaluatedPoint(
                order=order, seconds=1.0, instance=tuned.name_of(point),
                parameters=tuned.space.parameters(point) or {}, results=results,
            )
        )  # fmt: skip
    return record(*points, shapes=tuple(SHAPES), arch=tuned.arch)


def written(root: Path, tuned: TunedKernel, times: Mapping[int, Mapping[str, float]]) -> list[str]:
    record = record_of(tuned, times)
    return write_winners(tuned, record, dispatch_set(record.times()))


def test_winners_are_appended_with_what_they_are_good_for(root: Path) -> None:
    tuned = tuned_kernel_of(root)
    times = {2: {"square": 100.0, "thin": 300.0}, 4: {"square": 200.0, "thin": 250.0}}
    assert sorted(written(root, tuned, times)) == ["s_2", "s_4"]
    text = (root / "k.kernel.toml").read_text()
    assert text.startswith(KERNEL)
    assert '# fastest that was found, or nearly so: square (100.0 µs)\n[[instance]]\nname = "s_2"\nTile = 2\n' in text
    [kernel] = load_workspace(root).kernels
    assert {one.name: dict(one.parameters) for one in kernel.instances} == {
        "one": {"Flag": True, "Tile": 1},
        "s_2": {"Flag": True, "Tile": 2},
        "s_4": {"Flag": True, "Tile": 4},
    }


def test_what_the_file_has_is_not_written_again(root: Path) -> None:
    tuned = tuned_kernel_of(root)
    assert written(root, tuned, {1: {"square": 100.0, "thin": 100.0}}) == []
    assert (root / "k.kernel.toml").read_text() == KERNEL
    times = {2: {"square": 100.0, "thin": 100.0}}
    assert written(root, tuned, times) == ["s_2"]
    once = (root / "k.kernel.toml").read_text()
    assert written(root, tuned, times) == []
    assert (root / "k.kernel.toml").read_text() == once


def test_nothing_was_found(root: Path) -> None:
    tuned = tuned_kernel_of(root)
    assert write_winners(tuned, record_of(tuned, {}), None) == []
    assert (root / "k.kernel.toml").read_text() == KERNEL


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[defaults]\nFlag = true", "[defaults]\nFlag = true\nOther = 1", "does not take the winners"),
        ("[defaults]", "[defaults", "cannot be read"),
    ],
)
def test_a_file_that_does_not_take_them_stays_as_it_is(root: Path, old: str, new: str, message: str) -> None:
    tuned = tuned_kernel_of(root)
    changed = KERNEL.replace(old, new)
    (root / "k.kernel.toml").write_text(changed)
    with pytest.raises(CkwatchError, match=message):
        written(root, tuned, {2: {"square": 100.0, "thin": 100.0}})
    assert (root / "k.kernel.toml").read_text() == changed
