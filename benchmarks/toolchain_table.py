"""Which shipped template compiles with which Composable Kernel, and is right: the table in docs/toolchain.md.

`python -m benchmarks.toolchain_table NAME=ROCM,CK,CK_TILE … [--only PATTERN]` takes the smallest instance of each
template for gfx942, else gfx950 (of those of PyTorch Inductor, one of its own). `ckwatch verify` builds it and executes
it on the emulator, without the large shapes of its kernel file, with ROCM, CK and CK_TILE in `[toolchain]`, each of
which may be left out. What came of it is kept as `results/toolchains.json`, and the table is written anew from all that
is kept: where nothing compiles, it has the one sentence that says why. One unit at a time takes up to 100 s.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.reporting import REPOSITORY, RESULTS
from benchmarks.verification import EXAMPLES, SHIPPED, is_made_for
from ckwatch.model.kernels import Unit
from ckwatch.model.tiles import tile_of
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.toml import toml_value

ARCHS = ("gfx942", "gfx950")
KEPT = RESULTS / "toolchains.json"
PAGE = REPOSITORY / "docs/toolchain.md"
BEGIN, END = "<!-- templates by toolchain -->\n", "<!-- end of the table -->\n"
TIME_LIMIT_S = 1500

_GEMM = """\
kind = "ck_tile_gemm"
a = { dtype = "f16", layout = "row" }
b = { dtype = "f16", layout = "col" }
c = { dtype = "f16", layout = "row" }
"""
_LAUNCH = """\
{{ headers }}
{{ globals }}
{{ instance_definition }}
extern "C" PT_EXPORT {{ kernel_definition }} {
        // what Inductor's launch does not refuse: atomic split-K into what is stored, and more than 2 GiB
        const int64_t most = INT32_MAX / 2;
        if (kBatch != 1 || int64_t{LDA} * M > most || int64_t{LDB} * N > most || int64_t{LDC} * M > most) {
            return -23;
        }
{{ kernel_launch }}
    return 0;
}
"""
INDUCTOR: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "inductor/ck_tile_gemm.j2": (
        _GEMM,
        {
            "tile_m": 64,
            "tile_n": 64,
            "tile_k": 32,
            "warp_m": 2,
            "warp_n": 2,
            "warp_k": 1,
            "warp_tile_m": 32,
            "warp_tile_n": 32,
            "warp_tile_k": 16,
            "m_is_padded": "true",
            "n_is_padded": "true",
            "k_is_padded": "true",
            "pipeline": "CompV3",
            "scheduler": "Intrawave",
            "epilogue": "CShuffle",
        },
    ),
}
"""Operation and instance of a kernel whose template extends one of Inductor's."""


def smallest_units() -> Iterator[tuple[Path, Unit]]:
    """Workspace and unit of the smallest instance of each template of Composable Kernel's, and of ckwatch's own."""
    found: dict[str, tuple[tuple[str, int], Path, Unit]] = {}
    for example in SHIPPED:
        for unit in load_workspace(EXAMPLES / example).units:
            arch = next((arch for arch in ARCHS if is_made_for(unit, arch)), None)
            if arch is None:
                continue
            made = Unit(unit.kernel, unit.instance, arch)
            tile = tile_of(unit.instance.parameters, 1)
            size = arch, 1 << 30 if tile is None else tile.m * tile.n
            known = found.get(unit.kernel.template)
            if known is None or size < known[0]:
                found[unit.kernel.template] = (size, EXAMPLES / example, made)
    for _, folder, unit in (found[template] for template in sorted(found)):
        yield folder, unit


def workspaces(folder: Path) -> Iterator[tuple[str, str, Path]]:
    """Template, unit and workspace of each row; the workspaces are made in `folder`."""
    for example, unit in smallest_units():
        place = folder / unit.kernel.template.replace("/", "-")
        shutil.copytree(example, place)
        kernel_file = place / Path(unit.kernel.path).relative_to(example)
        kernel_file.write_text(re.sub(r"(?m)^\[\[shape\]\]\n(?:[^\[\n].*\n|\n)*", "", kernel_file.read_text()))
        yield unit.kernel.template, unit.id, place
    for template, (operation, parameters) in INDUCTOR.items():
        place = folder / template.replace("/", "-")
        (place / "templates").mkdir(parents=True)
        text = f'{{% extends "{template}" %}}\n{{% block kernel %}}\n{_LAUNCH}{{% endblock %}}\n'
        (place / "templates/own.hip.j2").write_text(text)
        (place / "ckwatch.toml").write_text(f'[workspace]\narchs = ["{ARCHS[0]}"]\ntemplates = ["templates"]\n')
        instance = "\n".join(f"{name} = {toml_value(value)}" for name, value in parameters.items())
        shape = '[[shape]]\nname = "256"\nM = 256\nN = 256\nK = 256\n'
        kernel = f'template = "own.hip.j2"\n\n[operation]\n{operation}\n{shape}\n[[instance]]\nname = "small"\n'
        kernel += f"{instance}\n"
        (place / "own.kernel.toml").write_text(kernel)
        yield template, f"own/small@{ARCHS[0]}", place


def outcome(unit: str, workspace: Path, folders: str) -> str:
    """The outcome of a unit with this toolchain, in words."""
    chosen = zip(("rocm", "ck", "ck_tile"), folders.split(","), strict=False)
    lines = [f"{key} = {toml_value(value)}" for key, value in chosen if value]
    settings = workspace / "ckwatch.toml"
    settings.write_text(settings.read_text() + "\n[toolchain]\n" + "\n".join(lines) + "\n")
    command = [
        sys.executable,
        "-m",
        "ckwatch",
        "verify",
        unit,
        "-C",
        str(workspace),
        "--no-daemon",
        "--json",
        "--trust",
    ]
    environment = {**os.environ, "CKWATCH_TRUST_FILE": str(workspace / "trusted")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=TIME_LIMIT_S)
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    errors = [one for one in events if one["event"] == "diagnostic" and one["severity"] == "error"]
    found = next((one for one in events if one["event"] == "unit"), None)
    if found is None:
        return (done.stderr.strip().splitlines() or ["nothing was said"])[-1]
    if found["outcome"] == "verified":
        return f"verified on {len(found['verification']['problems'])} problems"
    if errors and (errors[0]["code"] in ("rule/ck-feature", "rule/ck-arch") or "this clang" in errors[0]["message"]):
        sentence = str(errors[0]["message"]).partition(". Templates without")[0]
        return re.sub(r"/\S+/(?=ck(?:_tile)?/)", "", re.sub(r"(?<=in )/\S+", "%CK%", sentence))
    if errors:
        return f"does not compile: {errors[0]['message']} [{errors[0]['code']}]"
    return f"compiles, {str(found['summary']).removeprefix('✗ ')}"


def page(kept: Mapping[str, Mapping[str, str]]) -> str:
    """The table in Markdown, sentences below it."""
    templates = sorted({template for column in kept.values() for template in column})
    notes: dict[str, int] = {}
    lines = ["| template | " + " | ".join(kept) + " |", "|---" * (len(kept) + 1) + "|"]
    for template in templates:
        cells = []
        for name, column in kept.items():
            text = column.get(template, "not tried")
            if not text.startswith(("verified", "not tried")):
                text = text.replace("Composable Kernel in %CK%", name).replace(" in %CK%", f" of {name}")
                word, _, reason = text.partition(", ") if text.startswith("compiles") else ("no", "", text)
                text = f"{word} [{notes.setdefault(reason, len(notes) + 1)}]"
            cells.append(text)
        lines.append(f"| `{template}` | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *(f"{number}. {text}." for text, number in notes.items()), ""])


def main() -> int:
    """The exit status: 1 where something neither is verified nor has its sentence."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("toolchains", nargs="*", metavar="NAME=ROCM,CK,CK_TILE")
    parser.add_argument("--only", default="", metavar="PATTERN", help="templates in whose names it is found")
    options = parser.parse_args()
    kept: dict[str, dict[str, str]] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    right = True
    for given in options.toolchains:
        name, _, folders = given.partition("=")
        with tempfile.TemporaryDirectory(prefix="ckwatch-table-") as folder:
            for template, unit, workspace in workspaces(Path(folder)):
                if not re.search(options.only, template):
                    continue
                found = outcome(unit, workspace, folders)
                right = right and not found.startswith(("compiles", "does not compile"))
                print(f"{name}  {template}  {unit}: {found}", flush=True)
                kept.setdefault(name, {})[template] = found
                KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    if rest and kept:
        PAGE.write_text(f"{before}{BEGIN}\n{page(kept)}\n{END}{rest.partition(END)[2]}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
