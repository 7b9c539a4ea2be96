"""The searched space: read from a kernel file, refused points, names, seeds."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ckwatch.model.errors import CkwatchError
from ckwatch.tuning.opening import chosen_devices
from ckwatch.tuning.tuned_kernel import SEEDS
from ckwatch.wire.benchmarks import Device, Devices
from fakes.tuning_stand_in import tuned_kernel_of, workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return workspace(tmp_path)


def test_conditions_leave_points_out(root: Path) -> None:
    tuned = tuned_kernel_of(root)
    assert tuned.space.size == tuned.coverage.size == 96
    assert tuned.coverage.allowed == 92
    assert [(one.rule, round(one.share * 96)) for one in tuned.coverage.refused] == [
        ("`MPerBlock >= 2 * MPerThread`", 4)
    ]
    point = tuned.space.random(random.Random(1))  # reproducible by intention
    assert point is not None
    parameters = tuned.space.parameters(point)
    assert parameters is not None
    assert tuned.name_of(point) == "s_{MPerBlock}_{NPerBlock}_{MPerThread}".format(**parameters)
    assert tuned.point_of(parameters) == point
    assert tuned.points_like({"MPerBlock": 8, "Unknown": 1})
    assert all(tuned.space.parameters(one)["MPerBlock"] == 8 for one in tuned.points_like({"MPerBlock": 8}))  # type: ignore[index]


def test_values_that_the_template_refuses_are_gone(root: Path) -> None:
    path = root / "slow.kernel.toml"
    path.write_text(path.read_text().replace("MPerThread = [2, 4, 8]", "MPerThread = [2, 4, 8, -1]"))
    gone = [(one.parameter, one.value) for one in tuned_kernel_of(root).coverage.gone]
    assert gone == [("MPerThread", -1)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("slow", "slow", "there is no kernel 'slwo'"),
        ('[[sweep]]\nname = "s"\ntune = true', '[[sweep]]\nname = "s"\ntune = 3', "cannot be tuned: .*:24:8: "),
        ("[[shape]]", "[[shpe]]", "cannot be tuned: "),
        ("MPerBlock >= 2 * MPerThread", "MPerBlock > 1000", "nothing of the space of 'slow' is allowed: `MPerBlock > 1000`"),
    ],
)  # fmt: skip
def test_mistakes(root: Path, old: str, new: str, message: str) -> None:
    path = root / "slow.kernel.toml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(CkwatchError, match=message):
        tuned_kernel_of(root) if old != new else plan_of_other(root)


def plan_of_other(root: Path) -> None:
    from ckwatch.tuning.tuned_kernel import read_tuned_kernel

    read_tuned_kernel(root, "slwo", arch=None, shapes=None, listed=None, seed=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shapes": ["three"]}, "'slow' has no shape 'three'"),
        ({"arch": "gfx942"}, "'slow' is not compiled for gfx942"),
    ],
)
def test_questions_that_cannot_be_asked(root: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(CkwatchError, match=message):
        tuned_kernel_of(root, **options)


def test_listed_instances_instead_of_the_file(root: Path) -> None:
    listed = {"a": {"MPerBlock": 8, "NPerBlock": 32, "KPerBlock": 64, "MPerThread": 2, "NPerThread": 16}}
    tuned = tuned_kernel_of(root, listed=listed)
    assert [tuned.name_of(point) for point in tuned.space] == ["a"]


GEMM = """
[[sweep]]
name = "t"
base = "v3_128x128x64_intrawave"
tune = true

[sweep.parameters]
MPerBlock = [32, 64, 128, 256]
NPerBlock = [32, 64, 128, 256]
MXdlPerWave = [1, 2, 4]
NXdlPerWave = [1, 2, 4]
BlkGemmPipelineVer = ["v1", "v3", "v4"]
"""


def test_predictions_seed_the_search_and_rules_leave_points_out(tmp_path: Path) -> None:
    import ckwatch

    example = Path(ckwatch.__file__).parents[2] / "examples/gemm/gemm_f16.kernel.toml"
    (tmp_path / "ckwatch.toml").write_text('[workspace]\nkernels = ["*.kernel.toml"]\n')
    (tmp_path / "slow.kernel.toml").write_text(example.read_text() + GEMM)
    tuned = tuned_kernel_of(tmp_path)
    assert any(one.rule.startswith("rule/") or "wave" in one.rule for one in tuned.coverage.refused)
    seeds = tuned.predicted_best(tuned.shapes[0].name, 0)
    assert len(seeds) == SEEDS
    times = [tuned.predicted_us(point, tuned.shapes[0].name) or 0.0 for point in seeds]
    assert times == sorted(times)
    assert all(tuned.space.is_allowed(point) for point in seeds)


HERE, OTHER, FAR = (
    Device(name=name, description="a stand-in", arch="host", machine=machine)
    for name, machine in (("cpu", ""), ("cpu:1", ""), ("cpu", "gpu-box"))
)
THERE = Devices(devices=(HERE, OTHER, FAR))


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ([], (HERE,)),
        (["auto"], (HERE,)),
        (["all"], (HERE, OTHER)),  # no processor of another machine
        (["cpu:1", "gpu-box/cpu"], (OTHER, FAR)),
    ],
)
def test_the_devices_of_a_run(root: Path, wanted: list[str], expected: tuple[Device, ...]) -> None:
    assert chosen_devices(tuned_kernel_of(root), THERE, wanted) == expected


def test_a_device_that_is_not_there(root: Path) -> None:
    with pytest.raises(CkwatchError, match="there is no device box/cpu"):
        chosen_devices(tuned_kernel_of(root), THERE, ["box/cpu"])
