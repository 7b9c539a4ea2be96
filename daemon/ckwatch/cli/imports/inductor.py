"""`ckwatch import inductor FILE.py`: a template string of PyTorch Inductor's as a template and a kernel file."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Iterable
from pathlib import Path

import ckwatch_templates
from ckwatch.cli.imports.files import read_source, workspace_of, write_files
from ckwatch.cli.imports.template_strings import (
    TemplateString,
    TemplateStringError,
    chosen_string,
    template_strings,
)
from ckwatch.cli.imports.wrapping import BASES, Base, chosen_base, parts_of, wrapped
from ckwatch.cli.output import Output
from ckwatch.cli.templates import own_folder
from ckwatch.model.errors import CkwatchError
from ckwatch.model.names import why_no_name
from ckwatch.system.user_files import read_file
from ckwatch.workspace.parameters import RESERVED
from ckwatch.workspace.template_search import TemplateSearch
from ckwatch.workspace.toml import toml_string

START = Path(__file__).parent / "start"
"""Kernel files without their first line, which names the template."""

TENSORS = frozenset(("X", "W", "Y", "Bias", "inv_scale_x", "inv_scale_w"))


def run(options: argparse.Namespace) -> int:
    """Write the template and its kernel file, and say what was taken and what was not."""
    workspace = workspace_of(options)
    try:
        strings = template_strings(read_source(options.file))
        chosen = chosen_string(strings, options.name)
    except TemplateStringError as error:
        place = f"{options.file}:{error.line}" if error.line else str(options.file)
        raise CkwatchError(f"{place}: {error}") from None
    search = TemplateSearch(workspace.template_folders, {})
    texts = {base.template: _built_in(search, base.template) for base in BASES}
    text = chosen.text or ""
    base = chosen_base(text, f"{options.file.stem} {chosen.name}", texts)
    parts = parts_of(base, chosen, strings)
    name = options.file.stem.removesuffix("_template") if options.called is None else options.called
    if (reason := why_no_name(name)) is not None:
        raise CkwatchError(reason, "--as gives another one")
    template = own_folder(workspace) / f"{name}.hip.j2"
    kernel_file = workspace.root / "kernels" / f"{name}.kernel.toml"
    start = read_file(START / f"{base.start if base is not None else 'other'}.kernel.toml").decode()
    unset = _unset_names([text, *(one.text or "" for one in parts.values())], base, texts, start)
    kernel = f"# From `{chosen.name}` of {options.file.name}.\n\ntemplate = {toml_string(template.name)}\n\n{start}"
    kernel += "".join(f"# {one} =\n" for one in unset)
    template_text = wrapped(text, base, {block: one.text or "" for block, one in parts.items()})
    write_files({template: template_text, kernel_file: kernel}, force=options.force)
    taken = (chosen, *parts.values())
    _report(Output(options, workspace.root), template, kernel_file, taken, strings, base, unset)
    return 0


def _report(
    output: Output,
    template: Path,
    kernel_file: Path,
    taken: tuple[TemplateString, ...],
    strings: Iterable[TemplateString],
    base: Base | None,
    unset: Iterable[str],
) -> None:
    left = tuple(one.name for one in strings if one not in taken)
    output.answer(
        template=template, kernel_file=kernel_file, taken=[one.name for one in taken], left_out=left,
        extends=None if base is None else base.template, unset=list(unset),
    )  # fmt: skip
    extends = f", which extends {base.template}" if base is not None else ""
    output.text(f"wrote {template}: {', '.join(one.name for one in taken)}{extends}")
    output.text(f"wrote {kernel_file}")
    if left:
        output.text(f"not taken: {', '.join(left)}", "yellow")
    if names := ", ".join(unset):
        output.text(f"the template reads what nothing sets: {names}; give it in the instances", "yellow")
    output.text(f"next: `ckwatch check {kernel_file.name.partition('.')[0]}`")


def _built_in(search: TemplateSearch, name: str) -> str:
    return read_file(search.find(name) or ckwatch_templates.ROOT / name).decode("utf-8", "replace")


def _unset_names(texts: Iterable[str], base: Base | None, base_texts: dict[str, str], start: str) -> list[str]:
    """Return names that the texts read and neither ckwatch, their base nor the first instance sets; empty for a text
    with errors."""
    from jinja2 import Environment, TemplateError, meta, nodes

    environment = Environment(extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"])  # noqa: S701  # it is C++
    try:
        read = {name for text in texts for name in meta.find_undeclared_variables(environment.parse(text))}
        given = {*RESERVED, *TENSORS, *tomllib.loads(start)["instance"][0], *environment.globals}
        if base is not None:
            tree = environment.parse(base_texts[base.template])
            given |= {one.name for one in tree.find_all(nodes.Name) if one.ctx == "store"}
            given |= {one.name for one in tree.find_all(nodes.Macro)}
    except TemplateError:
        return []
    return sorted(read - given)
