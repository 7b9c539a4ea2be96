"""Compare hipcc's errors in AITER's lists of instances with the rules' predictions.

    python -m benchmarks.aiter FILE … [--arch gfx950] [--gemm-spec MNKPadding]   compiles what has no result yet
    python -m benchmarks.aiter --from-results                                     judges the stored results again

FILE is a list of AITER's, as `csrc/ck_gemm_a8w8/gemm_a8w8_common.py`; `ckwatch import aiter` reads it. Every instance
is rendered and goes through the device pass of the real compiler with `-fsyntax-only`; code is generated where the
rules expect a failure that only comes from there, and with `--code` everywhere. What hipcc said is stored as soon as it
is there, in `results/aiter.json`, together with the kernel files. The last lines count: instances that compile and are
accepted, false rejections, which must be 0, and failures that the rules did not see.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import ckwatch_templates
from benchmarks.mutated_instances import RESULTS, errors_of, hipcc_error, worst_error
from ckwatch.checks.static_checks import static_checks
from ckwatch.cli.imports.aiter_lists import GEMM_SPECS, plan_import, read_list
from ckwatch.compile.toolchain.discover import discover
from ckwatch.model.kernels import Unit
from ckwatch.render.outcome import RenderOutcome
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.loading import load_workspace

PATH = RESULTS / "aiter.json"

Stored = dict[str, Any]
"""`kernels`: kernel files by their names. `units`: of each unit what hipcc said, and whether code was generated."""


class Instances:
    """The units of kernel files, and what is said of them without a compiler."""

    def __init__(self, kernels: Mapping[str, str]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        root = Path(self._folder.name)
        (root / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx950"]\n')
        for name, text in kernels.items():
            (root / f"{name}.kernel.toml").write_text(text)
        workspace = load_workspace(root)
        for error in workspace.errors:
            print(error.message)
        self._renderer = Renderer(tuple(workspace.template_folders))
        self.units = {f"{unit.kernel.name}/{unit.instance.name}": unit for unit in workspace.units}

    def outcome(self, unit: Unit) -> RenderOutcome:
        """The rendered text, and what is found in it."""
        return static_checks(unit, self._renderer.render(unit), rules=True, builtin=str(ckwatch_templates.ROOT))


def kernels_of(files: Iterable[Path], gemm_spec: str) -> dict[str, str]:
    """The kernel files that an import of these lists writes."""
    found: dict[str, str] = {}
    for path in files:
        listed = read_list(path.read_text())
        plan = plan_import(listed, listed.list.template, gemm_spec, lambda fields: True, None, 10_000)  # noqa: ARG005
        found |= {file.name: file.text for file in plan.files}
        repeated = f", {listed.repeated} of them twice" if listed.repeated else ""
        print(f"{listed.list.name}: {len(listed.instances) + listed.repeated} instances{repeated}")
    return found


def collect(kernels: Mapping[str, str], arch: str, stored: Stored, limit: int | None, *, code: bool) -> None:
    """Compile the units that have no result yet; all are rendered first, so that templates may change meanwhile."""
    toolchain = discover()
    instances = Instances(kernels)
    units = {name: replace(unit, arch=arch) for name, unit in instances.units.items()}
    rendered = {name: instances.outcome(unit) for name, unit in units.items()}
    stored.setdefault("kernels", {}).update(kernels)
    results = stored.setdefault("units", {})
    todo = [name for name in units if needed(results.get(f"{name}@{arch}"), code=code)][:limit]
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(todo, 1):
            outcome = rendered[name]
            begun_s = time.monotonic()
            error, generated = compiled(outcome, arch, toolchain, Path(folder), code=code)
            results[f"{name}@{arch}"] = {
                "error": error,
                "code": generated,
                "s": round(time.monotonic() - begun_s, 1),
            }
            save(stored)
            print(f"{number}/{len(todo)} {name}@{arch}\n    hipcc   {error or 'compiles'}", flush=True)
            print(f"    ckwatch {worst_error(outcome) or 'accepts'}", flush=True)


def needed(result: Mapping[str, Any] | None, *, code: bool) -> bool:
    """True if a unit has no result, or no code although `code` is wanted."""
    return result is None or (code and not result["error"] and not result["code"])


def compiled(outcome: RenderOutcome, arch: str, toolchain: Any, folder: Path, *, code: bool) -> tuple[str, bool]:
    """hipcc's first error, empty where there is none, and whether code was generated."""
    if outcome.rendered is None:
        return f"does not render: {errors_of(outcome)[0].message}", False
    text = outcome.rendered.text
    beyond_lds = any(one.code in ("rule/lds", "rule/tile-lds") for one in errors_of(outcome))
    if code or beyond_lds:
        return hipcc_error(text, arch, "device", toolchain, folder, "-c", "-o", str(folder / "unit.o")), True
    return hipcc_error(text, arch, "device", toolchain, folder, "-fsyntax-only"), False


def judged(stored: Stored) -> tuple[Counter[str], list[str]]:
    """Units by their kernel and what was said of them, and those in which ckwatch and hipcc do not agree."""
    instances = Instances(stored.get("kernels", {}))
    counts: Counter[str] = Counter()
    disagreements: list[str] = []
    for id_, result in stored.get("units", {}).items():
        name, _, arch = id_.rpartition("@")
        rejection = worst_error(instances.outcome(replace(instances.units[name], arch=arch)))
        error = result["error"]
        word = (
            ("is rejected and fails" if error else "is rejected and compiles")
            if rejection
            else ("is accepted and fails" if error else "is accepted and compiles")
        )
        counts[f"{name.partition('/')[0]}@{arch} {word}"] += 1
        if bool(error) != bool(rejection):
            disagreements.append(f"{id_}: {error or 'compiles'}; ckwatch: {rejection or 'accepts'}")
    return counts, disagreements


def save(stored: Stored) -> None:
    """Write the results, whole or not at all."""
    temporary = PATH.with_suffix(".tmp")
    temporary.write_text(json.dumps(stored, indent=1) + "\n")
    temporary.replace(PATH)


def load() -> Stored:
    """The stored results."""
    return dict(json.loads(PATH.read_text())) if PATH.exists() else {}


def main() -> int:
    """The exit status: 1 where something is rejected that compiles."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="lists of AITER's")
    parser.add_argument("--arch", default="gfx950")
    parser.add_argument("--gemm-spec", choices=GEMM_SPECS, default=GEMM_SPECS[0])
    parser.add_argument("--limit", type=int, help="compile at most this many instances")
    parser.add_argument("--code", action="store_true", help="generate code for all")
    parser.add_argument("--from-results", action="store_true", help="compile nothing")
    options = parser.parse_args()
    stored = load()
    if not options.from_results:
        collect(kernels_of(options.files, options.gemm_spec), options.arch, stored, options.limit, code=options.code)
    counts, disagreements = judged(stored)
    print(*(f"{count:4} {words}" for words, count in sorted(counts.items())), sep="\n")
    print(f"ckwatch and hipcc do not agree: {len(disagreements)}", *disagreements, sep="\n    ")
    return int(any("is rejected and compiles" in words for words in counts))


if __name__ == "__main__":
    sys.exit(main())
