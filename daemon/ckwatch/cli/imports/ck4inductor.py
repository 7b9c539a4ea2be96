"""`ckwatch import ck4inductor FAMILY`: kernel files from CK's own lists of instances."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from ckwatch.cli.imports.files import template_search, workspace_of, write_imported
from ckwatch.cli.imports.filters import instance_filter
from ckwatch.cli.imports.instance_lists import (
    FAMILIES,
    Fields,
    InstanceFamily,
    Selection,
    TargetTemplate,
    plan_import,
    spellings,
)
from ckwatch.compile.toolchain.named import find_ck4inductor
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import ParameterValue
from ckwatch.system.processes import run_blocking
from ckwatch.system.python_process import text_command
from ckwatch.workspace.loading import Workspace

INSTALL = "`ckwatch toolchain install ck` installs it"
TIMEOUT_S = 120

# A checkout has the lists beside the package, an installed package has them in it.
_LIST = """
import dataclasses, importlib, json, os, sys
folder, module, function = sys.argv[1:]
sys.path.insert(0, folder)
library = os.path.join(os.path.dirname(folder), "library")
if os.path.isdir(library) and not os.path.isdir(os.path.join(folder, "ck4inductor/library")):
    import ck4inductor.util
    ck4inductor.util.library_path = lambda: library
listed = getattr(importlib.import_module(module), function)()
json.dump([dataclasses.asdict(one) for one in listed], sys.stdout)
"""


def run(options: argparse.Namespace) -> int:
    """Write the kernel files, and say what is in none of them."""
    family = FAMILIES[options.family]
    workspace = workspace_of(options)
    names = _template_names(family, workspace, options.template)
    listed = _listed(family, _python_folder(workspace))
    known = spellings(family, next(iter(listed), {}))
    wanted = instance_filter(options.filter, known, ("m_per_block >= 128", "MPerBlock=128"))
    plan = plan_import(family, listed, names, Selection(wanted, options.limit, workspace.settings.limits.instances))
    written = {file.name: (file.text, file.instances) for file in plan.files}
    write_imported(options, workspace, written, len(listed), plan.left_out)
    return 0


def _python_folder(workspace: Workspace) -> Path:
    found = find_ck4inductor(workspace.settings.toolchain, os.environ)
    if found is None or not (found.folder / "ck4inductor").is_dir():
        raise CkwatchError("ck4inductor, which has Composable Kernel's lists of instances, is not installed", INSTALL)
    return found.folder


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
    """Return the set of parameter names that the template uses: CK's or ck4inductor's."""
    name = template or family.template
    words = template_search(workspace, name).words(name)
    has_ck_names = template is None or (words is not None and "MPerBlock" in words)
    if words is not None and not words & {"MPerBlock", "m_per_block"}:
        message = f"the template '{name}' reads neither m_per_block nor MPerBlock"
        raise CkwatchError(message, f"the list is for templates with CK's parameters, such as {family.template}")
    return TargetTemplate(name, has_ck_names, words)
