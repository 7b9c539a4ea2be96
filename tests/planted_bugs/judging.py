"""Builds a variant with the real hipcc, verifies it, and compares what was found with what is wrong."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import anyio

from ckwatch.bench.job import VerifyJob
from ckwatch.checks.places import RenderedFile
from ckwatch.codeobject.tools.llvm_tools import disassemble, source_lines_of
from ckwatch.compile.flags import LINE_TABLES
from ckwatch.compile.rendered_unit import compile_request
from ckwatch.compile.request import CompileStatus
from ckwatch.compile.single_call import compile_source
from ckwatch.compile.store.entries import ProductKind
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.model.kernels import Unit
from ckwatch.model.text import Span
from ckwatch.model.verification import (
    EmulatedFinding,
    ProblemOutcome,
    Verification,
    VerificationDepth,
    VerificationOutcome,
)
from ckwatch.render.renderer import Renderer
from ckwatch.verification.places import place_findings
from ckwatch.verification.problems import trials_of
from ckwatch.verification.session import verify
from ckwatch.workspace.loading import Workspace, load_workspace
from planted_bugs.corpus import ROOT, Variant

TIME_LIMIT_S = 600.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """`kinds`: of all mistakes that were found; `places`: file and line, with the line's text, of those of the right
    kind. A bug that shows in the results alone has the kind "wrong" and no place."""

    variant: Variant
    verification: Verification
    kinds: tuple[str, ...]
    places: tuple[str, ...]
    line_right: bool

    @property
    def found(self) -> bool:
        return any(kind in self.variant.finds for kind in self.kinds)

    @property
    def right(self) -> bool:
        """Found and at its line; for a twin, verified."""
        if self.variant.finds:
            return self.found and self.line_right
        return self.verification.outcome is VerificationOutcome.VERIFIED

    def __str__(self) -> str:
        lines = [f"{self.variant}: {self.verification.summary}"]
        lines += [
            f"  {problem.name} ({problem.shape}): {problem.outcome}: {problem.message}"
            for problem in self.verification.problems
            if problem.outcome in (ProblemOutcome.WRONG, ProblemOutcome.NOT_VERIFIED)
        ]
        for one in self.verification.findings:
            lines.append(f"  {one.kind}: {one.message} [{one.problem}] {one.instruction} {one.count} times")
            lines += [f"    at {shown}" for shown in map(_shown, (one.place, one.other_place)) if shown]
        return "\n".join(lines)


def judge(variant: Variant, library: Path) -> Verdict:
    """Raises ValueError for an edit that does not fit or a variant that does not compile."""
    toolchain = discover()
    workspace, unit = unit_of(variant.unit)
    template = None if variant.is_header else str(variant.template)
    overlays = {} if template is None else {template: variant.edited(Path(template).read_text("utf-8"))}
    outcome = Renderer(workspace.template_folders).render(unit, overlays=overlays)
    if outcome.rendered is None:
        raise ValueError(f"{variant}: does not render: {outcome.diagnostics}")
    rendered = outcome.rendered
    if variant.edits and template is not None:
        plain = Renderer(workspace.template_folders).render(unit).rendered
        if plain is not None and plain.text == rendered.text:
            raise ValueError(f"{variant}: changes nothing")
    # Artifacts have no line tables; here the one compile serves for both.
    request = compile_request(workspace, unit, rendered, awaited=True)
    request = replace(request, flags=(*request.flags, *LINE_TABLES))
    with tempfile.TemporaryDirectory(prefix="ckwatch-planted-") as name:
        folder, headers = Path(name, "compile"), Path(name, "headers")
        folder.mkdir()
        if variant.is_header:
            header = headers / variant.file
            header.parent.mkdir(parents=True)
            header.write_text(variant.edited(_header(toolchain, variant.file)), "utf-8")
            # Before CK's own: quoted includes of CK's headers are found here first.
            request = replace(request, include_folders=(headers, *request.include_folders))
            overlays = {str(header): header.read_text("utf-8")}
        built = anyio.run(partial(compile_source, request, toolchain, folder=folder))
        if built.status is not CompileStatus.OK:
            raise ValueError(f"{variant}: does not compile:\n{built.log}")
        job = VerifyJob(
            arch=unit.arch,
            symbol=rendered.symbol,
            trials=trials_of(unit, VerificationDepth.ESSENTIAL),
            library=str(library),
            objdump=str(toolchain.objdump),
            reference=unit.kernel.operation.reference,
        )
        artifact = built.files[ProductKind.SHARED_OBJECT].read_bytes()
        verification = anyio.run(partial(verify, job, artifact, time_limit_s=TIME_LIMIT_S))
        file = RenderedFile(request.language.source_name, rendered.source_map)
        code_object = built.files[ProductKind.CODE_OBJECT]
        verification = anyio.run(_placed, verification, code_object, toolchain, file)
    return _verdict(variant, verification, overlays)


async def _placed(
    verification: Verification, code_object: Path, toolchain: Toolchain, file: RenderedFile
) -> Verification:
    for symbol in {finding.kernel for finding in verification.findings}:
        function = await disassemble(code_object, toolchain, symbol)
        frames = await source_lines_of(code_object, toolchain, function)
        verification = place_findings(verification, symbol, frames, file)
    return verification


def _verdict(variant: Variant, verification: Verification, edited: dict[str, str]) -> Verdict:
    kinds = {finding.kind.value for finding in verification.mistakes}
    if any(problem.outcome is ProblemOutcome.WRONG for problem in verification.problems):
        kinds.add("wrong")
    matching = [finding for finding in verification.mistakes if finding.kind.value in variant.finds]
    places = [shown for finding in matching for shown in _lines_of(finding, edited)]
    line_right = any(part in place for place in places for part in variant.shown)
    if "wrong" in variant.finds and "wrong" in kinds and not places:
        line_right = True  # at the instance
    return Verdict(variant, verification, tuple(sorted(kinds)), tuple(dict.fromkeys(places)), line_right)


def _lines_of(finding: EmulatedFinding, edited: dict[str, str]) -> list[str]:
    """`gemm_tiled.hip.j2:133 text of the line`, for both sides of a finding."""
    found = []
    for place in (finding.place, finding.other_place):
        if place is None:
            continue
        text = edited.get(place.path)
        if text is None and Path(place.path).is_file():
            text = Path(place.path).read_text("utf-8")
        lines = (text or "").splitlines()
        number = place.start.line
        found.append(f"{_shown(place)} {lines[number].strip() if number < len(lines) else ''}")
    return found


def _shown(place: Span | None) -> str:
    return "" if place is None else f"{Path(place.path).name}:{place.start.line + 1}"


@cache
def unit_of(name: str) -> tuple[Workspace, Unit]:
    """`example/kernel/instance@arch`."""
    example, _, rest = name.partition("/")
    wanted, _, arch = rest.partition("@")
    workspace = load_workspace(ROOT / "examples" / example)
    unit = next(unit for unit in workspace.units if f"{unit.kernel.name}/{unit.instance.name}" == wanted)
    return workspace, Unit(unit.kernel, unit.instance, arch)


def _header(toolchain: Toolchain, name: str) -> str:
    return next(folder / name for folder in toolchain.include_folders if (folder / name).is_file()).read_text("utf-8")
