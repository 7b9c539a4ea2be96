"""Which value is shown where broken rules are about several: the one that was changed, and once."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import pytest

import ckwatch_templates
from cases.rule_instances import row_col
from ckwatch.checks.blame import mirror_of, operation_number, passed_values
from ckwatch.checks.fold import fold
from ckwatch.checks.rule_diagnostics import rule_diagnostics
from ckwatch.checks.skipped import skip_summaries
from ckwatch.checks.static_checks import static_checks
from ckwatch.model.diagnostics import Diagnostic, Severity
from ckwatch.model.kernels import Unit
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.loading import load_workspace
from helpers.static_diagnostics import renderer

BASE = Path(__file__).parents[1] / "mistakes/bases/gemm"
BUILTIN = str(ckwatch_templates.ROOT)

C_CLUSTER = "CShuffleBlockTransferClusterLengths_MBlock_MPerBlock_NBlock_NPerBlock"

CHANGED = [
    # parameter, the right value, the wrong one, which line of that text; the fix is the right one
    ("BlockSize", "256", "128", 0),
    ("BlockSize", "256", "1024", 0),
    ("AK1", "8", "16", 0),
    ("AK1", "8", "4", 0),
    ("BK1", "8", "32", 0),
    ("MPerXDL", "32", "64", 0),
    ("NPerXDL", "32", "64", 0),
    ("ABlockTransferThreadClusterLengths_AK0_M_AK1", "[8, 32, 1]", "[16, 32, 1]", 0),
    ("BBlockTransferThreadClusterLengths_BK0_N_BK1", "[4, 64, 1]", "[4, 128, 1]", 0),
    ("ABlockTransferThreadClusterArrangeOrder", "[1, 0, 2]", "[1, 1, 2]", 0),
    ("BBlockTransferSrcAccessOrder", "[1, 0, 2]", "[1, 2, 3]", 0),
    ("ABlockTransferSrcVectorDim", "2", "1", 0),
    ("BBlockTransferSrcScalarPerVector", "8", "3", 0),
    ("CShuffleMXdlPerWavePerShuffle", "1", "4", 0),
    (C_CLUSTER, "[1, 32, 1, 8]", "[1, 128, 1, 8]", 0),
    ("CDEShuffleBlockTransferScalarPerVectors", "[8]", "[16]", 0),
    ("MPerBlock", "128", "192", 0),
    ("MPerBlock", "256", "320", 0),
    ("NPerBlock", "128", "96", 1),
    ("KPerBlock", "64", "32", 0),
    ("KPerBlock", "32", "48", 0),
    ("MXdlPerWave", "4", "3", 0),
]


@cache
def units(root: Path) -> tuple[Renderer, tuple[Unit, ...]]:
    workspace = load_workspace(root)
    return renderer(workspace.template_folders), tuple(workspace.units)


def reported(root: Path) -> list[Diagnostic]:
    """Return the output of `check` for the kernel."""
    render, every = units(root)
    outcomes = [(unit, static_checks(unit, render.render(unit), rules=True, builtin=BUILTIN)) for unit in every]
    skipped = [(unit, outcome.diagnostics) for unit, outcome in outcomes if outcome.skipped]
    own = {unit.id: outcome.diagnostics for unit, outcome in outcomes if not outcome.skipped}
    return [*skip_summaries(skipped, (one for some in own.values() for one in some)), *fold(own, len(own))]


def changed(folder: Path, parameter: str, right: str, wrong: str, which: int = 0) -> tuple[Path, int]:
    """The workspace with the value changed, and the line of the value."""
    root = folder / "workspace"
    shutil.copytree(BASE, root, ignore=shutil.ignore_patterns("gemm_f8*"))
    path = root / "gemm_f16.kernel.toml"
    lines = path.read_text().splitlines()
    at = [number for number, line in enumerate(lines) if line == f"{parameter} = {right}"][which]
    lines[at] = f"{parameter} = {wrong}"
    path.write_text("\n".join(lines))
    return root, at


@pytest.mark.parametrize(("parameter", "right", "wrong", "which"), CHANGED)
def test_the_wrong_value_is_shown_once(tmp_path: Path, parameter: str, right: str, wrong: str, which: int) -> None:
    root, line = changed(tmp_path, parameter, right, wrong, which)
    (found,) = reported(root)
    assert (found.severity, found.span.start.line, found.span.start.column) == (
        *(Severity.ERROR, line, len(parameter) + 3),
    ), found.message


def test_the_fix_makes_every_instance_valid(tmp_path: Path) -> None:
    for number, row in enumerate(CHANGED[::4]):
        root, line = changed(tmp_path / str(number), *row)
        (found,) = reported(root)
        for fix in found.fixes:
            path = Path(fix.span.path)
            lines = path.read_text().splitlines()
            lines[line] = lines[line][: fix.span.start.column] + fix.text + lines[line][fix.span.end.column :]
            path.write_text("\n".join(lines))
            units.cache_clear()
            assert not [one for one in reported(root) if one.severity is Severity.ERROR], (row, fix.text)
    units.cache_clear()


def test_the_operation_is_shown_where_no_parameter_is_behind_all(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    shutil.copytree(BASE, root, ignore=shutil.ignore_patterns("gemm_f8*"))
    path = root / "gemm_f16.kernel.toml"
    right = path.read_text()
    for wrong, start in ((right.replace('"f16"', '"f64"'), "6:15"), (right.replace('"row"', '"col"', 1), "6:31")):
        path.write_text(wrong)
        units.cache_clear()
        (found,) = reported(root)
        assert str(found.span.start) == start
    units.cache_clear()


def test_two_mistakes_are_two_messages(tmp_path: Path) -> None:
    root, first = changed(tmp_path, "ABlockTransferThreadClusterArrangeOrder", "[1, 0, 2]", "[1, 1, 2]")
    path = root / "gemm_f16.kernel.toml"
    lines = path.read_text().splitlines()
    second = lines.index("BBlockTransferSrcScalarPerVector = 8")
    lines[second] = "BBlockTransferSrcScalarPerVector = 3"
    path.write_text("\n".join(lines))
    assert sorted(one.span.start.line for one in reported(root)) == [first, second]


def test_counterparts() -> None:
    names = list(row_col())
    pairs = {(one, mirror_of(one)) for one in names if mirror_of(one) != one}
    assert len(pairs) == 20
    assert all(other in names and mirror_of(other) == one for one, other in pairs)


def test_nothing_is_blamed_for_what_is_right() -> None:
    _, every = units(BASE)
    for unit in every:
        text = renderer((Path(BUILTIN),)).render(unit).rendered
        assert text is not None
        assert rule_diagnostics(unit, text.text, text.source_map) == ()


def test_one_default_is_one_message_where_instances_override_what_goes_with_it(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    base = Path(__file__).parents[2] / "examples/batched_gemm"
    shutil.copytree(base, root, ignore=lambda _, names: [one for one in names if one.endswith("f16.kernel.toml")])
    for path in root.glob("*.kernel.toml"):
        if path.name != "batched_bf16_bias_gelu_residual.kernel.toml":
            path.unlink()
    path = root / "batched_bf16_bias_gelu_residual.kernel.toml"
    lines = path.read_text().splitlines()
    at = lines.index("BK1 = 4")
    lines[at] = "BK1 = 8"
    path.write_text("\n".join(lines))
    (found,) = reported(root)
    assert (found.span.start.line, [fix.text for fix in found.fixes]) == (at, ["4"])


@pytest.mark.parametrize(
    ("right", "wrong", "start"),
    [
        ('layout = "row" }\nb', 'layout = "col" }\nb', "6:31"),
        ('a = { dtype = "f16"', 'a = { dtype = "f32"', "6:15"),
        ("\nAK1 = 8", "\nAK1 = 16", "13:7"),
    ],
)
def test_what_the_kernel_file_changed_last_is_shown(tmp_path: Path, right: str, wrong: str, start: str) -> None:
    root = tmp_path / "workspace"
    shutil.copytree(BASE, root, ignore=shutil.ignore_patterns("gemm_f8*"))
    path = root / "gemm_f16.kernel.toml"
    passed = {
        one.id: passed_values(one.instance.parameters, operation_number(one.kernel.operation))
        for one in load_workspace(root).units
    }
    path.write_text(path.read_text().replace(right, wrong, 1))
    units.cache_clear()
    render, every = units(root)
    outcomes = [
        (one, static_checks(one, render.render(one), rules=True, builtin=BUILTIN, passed=passed[one.id]))
        for one in every
        if one.instance.sweep is None
    ]
    units.cache_clear()
    errors = {str(one.span.start) for _, outcome in outcomes for one in outcome.diagnostics}
    assert errors == {start}
