"""`ckwatch import aiter FILE`: kernel files from AITER's lists of Composable Kernel instances."""

from __future__ import annotations

import argparse
from pathlib import Path

from ckwatch.checks.aiter_instances import ListError
from ckwatch.cli.imports.aiter_lists import ListedInstances, known_names, plan_import, read_list
from ckwatch.cli.imports.files import read_source, template_search, workspace_of, write_imported
from ckwatch.cli.imports.filters import instance_filter
from ckwatch.model.errors import CkwatchError


def run(options: argparse.Namespace) -> int:
    """Write the kernel files, and say what is in none of them."""
    listed = _listed(options.file)
    workspace = workspace_of(options)
    template = options.template or listed.list.template
    template_search(workspace, template)
    wanted = instance_filter(options.filter, known_names(listed), ("MPerBlock >= 128", "PIPELINE_VERSION=3"))
    plan = plan_import(listed, template, options.gemm_spec, wanted, options.limit, workspace.settings.limits.instances)
    written = {file.name: (file.text, file.instances) for file in plan.files}
    write_imported(options, workspace, written, plan.listed, plan.left_out)
    return 0


def _listed(path: Path) -> ListedInstances:
    try:
        return read_list(read_source(path))
    except ListError as error:
        example = "csrc/ck_gemm_a8w8/gemm_a8w8_common.py"
        raise CkwatchError(
            f"{path} is not a list that can be imported: {error}", f"one is {example} of AITER"
        ) from None
