"""`ckwatch import ck4inductor FAMILY`: kernel files from CK's own lists of instances."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ckwatch.cli.imports.files import workspace_of, write_files
from ckwatch.cli.imports.instance_lists import (
    FAMILIES,
    Fields,
    ImportPlan,
    InstanceFamily,
    Selection,
    TargetTemplate,
    plain,
    plan_import,
    spellings,
)
from ckwatch.cli.output import Output
from ckwatch.compile.toolchain import installations
from ckwatch.compile.toolchain.composable_kernel import find_sources
from ckwatch.model.amounts import count
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import ParameterValue
from ckwatch.system.processes import run_blocking
from ckwatch.system.python_process import text_command
from ckwatch.workspace.loading import Workspace
from ckwatch.workspace.parameters import Condition, ConditionError
from ckwatch.workspace.problems import did_you_mean, join_names
from ckwatch.workspace.template_search import TemplateSearch

INSTALL = "`ckwatch toolchain install ck` installs it"
TIMEOUT_S = 120

_LIST = """
import dataclasses, importlib, json, sys
sys.path.insert(0, sys.argv[1])
listed = getattr(importlib.import_module(sys.argv[2]), sys.argv[3])()
json.dump([dataclasses.asdict(one) for one in listed], sys.stdout)
"""
_SCOPE = re.compile(r"\b\w+::(?=\w)")
_ASSIGNMENT = re.compile(r"\s*(\w+)\s*=(?!=)\s*(.*?)\s*", re.DOTALL)


def run(options: argparse.Namespace) -> int:
    """Write the kernel files, and say what is in none of them."""
    family = FAMILIES[options.family]
    workspace = workspace_of(options)
    names = _template_names(family, workspace, options.template)
    listed = _listed(family, _python_folder())
    wanted = _filter(family, options.filter, listed)
    plan = plan_import(family, listed, names, Selection(wanted, options.limit, workspace.settings.limits.instances))
    folder = workspace.root / "kernels" if options.output is None else Path(os.path.abspath(options.output))  # noqa: PTH100
    paths = {folder / f"{file.name}.kernel.toml": file for file in plan.files}
    if not paths:
        reasons = "; ".join(f"{number:,}: {reason}" for reason, number in plan.left_out.items())
        raise CkwatchError(
            f"none of {len(listed):,} instances is left",
            f"left out are {reasons}" if reasons else "the filters leave none; see their values with fewer filters",
        )
    write_files({path: file.text for path, file in paths.items()}, force=options.force)
    if not folder.is_relative_to(workspace.root):
        sys.stderr.write(f"ckwatch: {folder} is not in the workspace: name it in `kernel_folders` of ckwatch.toml\n")
    _report(
        Output(options, workspace.root), len(listed), {str(path): file.instances for path, file in paths.items()}, plan
    )
    return 0


def _report(output: Output, listed: int, instances: Mapping[str, int], plan: ImportPlan) -> None:
    if output.json:
        from ckwatch.cli.json_output import ImportedInstances, ImportedKernelFile

        files = tuple(ImportedKernelFile(path=path, instances=number) for path, number in instances.items())
        output.line(ImportedInstances(listed=listed, files=files, left_out=dict(plan.left_out)))
        return
    for path, number in instances.items():
        output.text(f"wrote {path}: {count(number, 'instance')}")
    for reason, number in plan.left_out.items():
        output.text(f"left out {count(number, 'instance')}: {reason}", "yellow")
    chosen = sum(instances.values())
    output.text(f"{chosen:,} of {listed:,} instances; next: `ckwatch check` applies the instance rules")


def _python_folder() -> Path:
    sources = find_sources(installations.cache_folder(os.environ))
    if sources is None or not (sources.python / "ck4inductor").is_dir():
        raise CkwatchError("ck4inductor, which has Composable Kernel's lists of instances, is not installed", INSTALL)
    return sources.python


def _listed(family: InstanceFamily, folder: Path) -> list[Fields]:
    """The list, made by a process of its own: ck4inductor is no code of ckwatch's."""
    command = text_command(_LIST, str(folder), family.module, family.function)
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}
    try:
        done = run_blocking(command, environment=environment, timeout_s=TIMEOUT_S)
    except TimeoutError:
        raise CkwatchError(f"ck4inductor has listed nothing for {TIMEOUT_S} seconds: {folder}") from None
    last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    if done.returncode != 0:
        raise CkwatchError(f"ck4inductor in {folder} fails: {last}", f"{INSTALL} anew with --force")
    found: list[Fields] = [{name: _value(value) for name, value in one.items()} for one in json.loads(done.stdout)]
    if not found:
        raise CkwatchError(f"ck4inductor in {folder} lists no instance", f"{INSTALL} anew with --force")
    return found


def _value(value: Any) -> ParameterValue | None:
    return tuple(value) if isinstance(value, list) else value


def _template_names(family: InstanceFamily, workspace: Workspace, template: str | None) -> TargetTemplate:
    """Whether the template has CK's names for parameters or ck4inductor's."""
    name = template or family.template
    search = TemplateSearch(workspace.template_folders, {})
    if search.find(name) is None:
        near = search.near(name)
        hint = f"did you mean '{near}'?" if near else "`ckwatch templates list` lists them"
        raise CkwatchError(f"there is no template '{name}'", hint)
    words = search.words(name)
    has_ck_names = template is None or (words is not None and "MPerBlock" in words)
    if words is not None and not words & {"MPerBlock", "m_per_block"}:
        message = f"the template '{name}' reads neither m_per_block nor MPerBlock"
        raise CkwatchError(message, f"the list is for templates with CK's parameters, such as {family.template}")
    return TargetTemplate(name, has_ck_names, words)


def _filter(family: InstanceFamily, texts: Sequence[str], listed: Iterable[Fields]) -> Callable[[Fields], bool]:
    """Whether all the filters hold for an instance. Raises CkwatchError for one that cannot be read or answered."""
    if not texts:
        return lambda fields: True  # noqa: ARG005
    from ckwatch.workspace.sweep_conditions import compiled_expression  # loads Jinja2

    known = spellings(family, next(iter(listed), {}))
    conditions = []
    for given in texts:
        text = _SCOPE.sub("", _as_expression(given))
        try:
            names, evaluate = compiled_expression(text)
        except ValueError as error:
            raise CkwatchError(
                f"`{given}` is not a filter: {error}", "as in 'm_per_block >= 128', or MPerBlock=128"
            ) from None
        for name in sorted(names - known.keys()):
            # in the spelling that was begun
            near = did_you_mean(name, known.values() if name.islower() else known)
            fields = join_names(dict.fromkeys(known.values()))
            raise CkwatchError(
                f"the filter `{given}` mentions `{name}`, which no field is called", f"{near}there are {fields}"
            )
        conditions.append(Condition(text, names, (), evaluate))

    mentioned = {name for condition in conditions for name in condition.names}

    def holds(fields: Fields) -> bool:
        values: dict[str, Any] = {name: plain(fields[known[name]]) for name in mentioned}
        try:
            return all(condition.holds(values) for condition in conditions)
        except ConditionError as error:
            raise CkwatchError(f"the filter {error}") from None

    return holds


def _as_expression(text: str) -> str:
    """`NAME=VALUE` as a comparison."""
    assigned = _ASSIGNMENT.fullmatch(text)
    if assigned is None:
        return text
    name, value = assigned.groups()
    literal = re.fullmatch(r"-?\d+|none|\[.*\]|\(.*\)|\".*\"|'.*'", value)
    return f"{name} == {value}" if literal else f"{name} == {json.dumps(value)}"
