"""`runtime_values` of custom operations: what is tried, and the place and words of each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.model.verification import VerificationDepth
from ckwatch.verification.problems import trials_of
from ckwatch.workspace.loading import Workspace, load_workspace

KERNEL = """template = "t.hip.j2"
[operation]
kind = "custom"
sizes = ["N"]
runtime = {{ epsilon = "float", count = "uint32_t", causal = "bool" }}
runtime_values = {{ {values} }}
[[operation.input]]
name = "X"
dtype = "f32"
sizes = ["N"]
[[operation.output]]
name = "Y"
dtype = "f32"
sizes = ["N"]
{shape}
[[instance]]
name = "a"
"""
SHAPE = "[[shape]]\nN = 5\nepsilon = 1e-6\ncount = 3\ncausal = true\n"


def loaded(folder: Path, values: str, shape: str = SHAPE) -> Workspace:
    (folder / "ckwatch.toml").write_text("")
    (folder / "templates").mkdir()
    (folder / "templates/t.hip.j2").write_text("{{ header('hip') }}")
    (folder / "t.kernel.toml").write_text(KERNEL.format(values=values, shape=shape))
    return load_workspace(folder)


def test_each_value_is_tried(tmp_path: Path) -> None:
    workspace = loaded(tmp_path, "epsilon = [1e-6, 1e-5, 0.5, 0.5], count = [4]")
    assert workspace.diagnostics == ()
    (unit, *_) = workspace.units
    essential = {trial.name: trial for trial in trials_of(unit, VerificationDepth.ESSENTIAL)}
    thorough = {trial.name: trial for trial in trials_of(unit)}
    found = [name for name in thorough if name.partition(" = ")[0] in ("epsilon", "count", "causal")]
    assert found == ["epsilon = 1e-05", "epsilon = 0.5", "count = 4", "causal = false"]
    assert [name for name in found if name in essential] == found[:-1]
    values = {one.name: one.value for one in thorough["epsilon = 0.5"].problem.arguments if one.buffer is None}
    assert (values["epsilon"], values["count"], values["causal"]) == (0.5, 3, True)


def test_without_shapes_the_first_value_is_the_usual_one(tmp_path: Path) -> None:
    (unit, *_) = loaded(tmp_path, "epsilon = [0.25, 0.5], causal = [false]", shape="").units
    trials = {trial.name: trial for trial in trials_of(unit)}
    values = {one.name: one.value for one in trials["ragged"].problem.arguments if one.buffer is None}
    assert (values["epsilon"], values["count"], values["causal"]) == (0.25, 1, False)
    assert "causal = true" not in trials


@pytest.mark.parametrize(
    ("values", "code", "message"),
    [
        ("epsilom = [1.0]", "unknown-runtime-argument", "`epsilom` is not a runtime argument; did you mean `epsilon`?"),
        ("count = [-1]", "out-of-range", "`count` does not fit into uint32_t"),
        ("causal = [1]", "wrong-type", "`causal` is of type bool; "),
        ("epsilon = []", "empty-array", ""),
        ("epsilon = 1.0", "wrong-type", ""),
    ],
)
def test_mistakes(tmp_path: Path, values: str, code: str, message: str) -> None:
    (found,) = (one for one in loaded(tmp_path, values).diagnostics if one.severity.value == "error")
    assert found.code == f"kernel-file/{code}"
    assert found.message.startswith(message)
    assert found.span.start.line == 5
