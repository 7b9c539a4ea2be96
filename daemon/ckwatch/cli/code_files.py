"""`ckwatch inspect FILE` and `ckwatch rank FILE…`: code objects from anywhere, without a workspace or a daemon."""

from __future__ import annotations

import argparse
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import translate
from functools import partial
from pathlib import Path

from anyio import to_thread

from ckwatch.cli.command_words import dependency
from ckwatch.cli.kernel_figures import INDENT, Line, isa_lines, kernel_lines
from ckwatch.cli.output import Output, SourceCache, aligned
from ckwatch.cli.trust import trusted_workspace
from ckwatch.codeobject.code_files import CodeFile, CodeObject, open_code_file
from ckwatch.codeobject.loop_ranking import NOT_RANKED, RankedLoop, rank_loops
from ckwatch.codeobject.metadata import ArgumentMetadata
from ckwatch.codeobject.report import CodeObjectReport, KernelReport, main_kernel
from ckwatch.codeobject.tools.code_file_analysis import analyze_code, kernel_listing
from ckwatch.codeobject.tools.llvm_tools import LlvmTools
from ckwatch.compile.toolchain.discover import discover
from ckwatch.model.amounts import count, size
from ckwatch.model.errors import CkwatchError, ToolchainError
from ckwatch.model.isa import IsaView
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.wire.analysis import Isa
from ckwatch.workspace.loading import load_workspace

_ARGUMENTS_SHOWN = 12
_DETAILED = 50
"""Kernels whose figures are shown whole."""
_OVERVIEW = 500
"""Kernels that have a line where there are more."""
_ANALYZED, _RANKED = 200, 2_000
"""Kernels whose instructions are read, which takes 10 to 50 ms each: of those that are shown, and that are ranked."""
_LISTED = 8
"""Kernels whose instructions are shown together."""


@dataclass(frozen=True, slots=True)
class _Inspected:
    """A code object of a file, and its report."""

    file: str
    code: CodeObject
    report: CodeObjectReport

    @property
    def title(self) -> str:
        """`matmul_kernel.hsaco, gfx942 (4 warps, 4 KiB of LDS at launch by Triton's JSON)`."""
        code, triton = self.code, self.code.triton
        name = self.file if code.origin in ("", code.name) and code.name in ("", self.file) else code.name
        origin = f", {code.origin}" if code.origin not in ("", code.name) else ""
        launched = (
            "" if triton is None else f" (Triton: {count(triton.num_warps, 'warp')}, {size(triton.shared_bytes)} LDS)"
        )
        return f"{name}{origin}, {code.arch or 'arch not known'}{launched}"

    def figures(self) -> dict[str, object]:
        """The fields of a code object in JSON."""
        return {
            "name": self.code.name,
            "origin": self.code.origin,
            "arch": self.report.arch,
            "code_key": code_key(self.code),
            "triton": self.code.triton,
            "kernels": self.report.kernels,
            "arguments": {
                one.resources.name: self.code.metadata.arguments.get(one.resources.symbol, ())
                for one in self.report.kernels
            },
            "notes": self.report.notes,
        }


def code_key(code: CodeObject) -> str:
    """Return the SHA-256 of a code object."""
    return hashlib.sha256(code.data).hexdigest()


async def tools_for(options: argparse.Namespace) -> tuple[LlvmTools | None, str]:
    """Return LLVM's tools of the workspace's toolchain, if that is trusted, or else of the machine's; None, and a note,
    without a toolchain."""

    def find() -> tuple[LlvmTools | None, str]:
        root = trusted_workspace(options)
        choice = None if root is None else load_workspace(root).settings.toolchain
        try:
            return dependency(options, "discover", discover)(choice), ""
        except ToolchainError as error:
            reason = error.message.partition("\n")[0]
            return None, f"{reason}: no main loop, no instructions, no predictions (`ckwatch toolchain install`)"

    return await to_thread.run_sync(find)


async def opened(path: Path, arch: str | None) -> CodeFile:
    """Read a file's code objects, of one arch or all. Raises CkwatchError where it cannot be read, or has none of the
    arch."""
    try:
        found = await to_thread.run_sync(open_code_file, path, arch)
    except OSError as error:
        raise CkwatchError(f"{path} cannot be read: {error.strerror or error}") from error
    if found.other_archs and not found.objects:
        raise CkwatchError(f"{path} has no code for {arch}", f"it has some for {', '.join(found.other_archs)}")
    return found


async def _inspected(
    path: Path, options: argparse.Namespace, tools: LlvmTools | None, why: str, most: int
) -> tuple[CodeFile, list[_Inspected]]:
    """The code objects of a file with their reports, without those that have none of the kernels of `--kernel`; where
    there are more than `most` kernels, their resources alone, and a note. Raises CkwatchError if none has, and if
    there are more than can be ranked."""
    found = await opened(path, options.of_arch)
    pattern = getattr(options, "kernel", None)
    if isinstance(pattern, str):
        found = await to_thread.run_sync(_with_kernels, found, pattern)
    kernels = sum(len(one.metadata.kernels) for one in found.objects)
    if tools is not None and kernels > most:
        tools, why = None, ""
        choose = " and ".join(["--kernel PATTERN", *(["--arch ARCH"] if len(_archs(found.objects)) > 1 else [])])
        many = f"{count(kernels, 'kernel')}: main loops of {most:,} at most are looked for"
        if most == _RANKED:
            raise CkwatchError(f"{path} has {many}", f"choose them by {choose}")
        found = replace(found, notes=(*found.notes, f"{many}; choose them by {choose}"))
    reports = await analyze_code(found.objects, tools, why)
    return found, [_Inspected(path.name, code, report) for code, report in zip(found.objects, reports, strict=True)]


def _with_kernels(found: CodeFile, pattern: str) -> CodeFile:
    """Keep the kernels of that name or symbol, or that match it as a pattern of a shell. Raises CkwatchError if there
    is none."""
    matches = re.compile(translate(pattern)).match
    objects = []
    for code in found.objects:
        kernels = tuple(
            one
            for one in code.metadata.kernels
            if pattern in (one.name, one.symbol) or matches(one.name) or matches(one.symbol)
        )
        if kernels:
            objects.append(replace(code, metadata=replace(code.metadata, kernels=kernels)))
    if found.objects and not objects:
        names = list(dict.fromkeys(one.name for code in found.objects for one in code.metadata.kernels))
        more = f" and {len(names) - 10:,} more" if len(names) > 10 else ""
        has = f"it has {', '.join(names[:10])}{more}" if names else "it has none"
        raise CkwatchError(f"{found.path} has no kernel '{pattern}'", has)
    return replace(found, objects=tuple(objects))


def _archs(objects: Sequence[CodeObject]) -> list[str]:
    return list(dict.fromkeys(one.arch for one in objects))


def argument_words(arguments: Sequence[ArgumentMetadata]) -> str:
    """`*f32 x_ptr, i32 n, 4 bytes`: type and name as far as the compiler has written them."""
    shown = [one for one in arguments if not one.hidden]
    words = [
        " ".join(filter(None, (one.type_name or ("pointer" if _is_pointer(one) else f"{one.size_bytes} B"), one.name)))
        for one in shown[:_ARGUMENTS_SHOWN]
    ]
    more = [f"and {len(shown) - _ARGUMENTS_SHOWN} more"] if len(shown) > _ARGUMENTS_SHOWN else []
    return ", ".join([*words, *more]) or "none"


def _is_pointer(argument: ArgumentMetadata) -> bool:
    return argument.kind in ("global_buffer", "dynamic_shared_pointer")


def file_lines(found: CodeFile, inspected: Sequence[_Inspected]) -> Iterator[Line]:
    """All figures of a file for a terminal; a line for each kernel where there are many."""
    if sum(len(one.report.kernels) for one in inspected) > _DETAILED:
        yield from _overview(found, inspected)
        return
    for note in found.notes:
        yield note, "yellow"
    for number, one in enumerate(inspected):
        if number or found.notes:
            yield "", ""
        yield one.title, "bold"
        for note in one.report.notes:
            yield f"{INDENT}{note}", "yellow"
        if not one.report.kernels:
            yield f"{INDENT}no kernels", ""
        for at, kernel in enumerate(one.report.kernels):
            if at:
                yield "", ""
            arguments = one.code.metadata.arguments.get(kernel.resources.symbol, ())
            yield from kernel_lines(kernel, [["arguments", argument_words(arguments)]])


def _overview(found: CodeFile, inspected: Sequence[_Inspected]) -> Iterator[Line]:
    """A line for each of many kernels, the first `_OVERVIEW`."""
    for note in (*found.notes, *dict.fromkeys(note for one in inspected for note in one.report.notes)):
        yield note, "yellow"
    kernels = [(one, kernel) for one in inspected for kernel in one.report.kernels]
    yield f"{found.path.name}: {count(len(kernels), 'kernel')} in {count(len(inspected), 'code object')}", "bold"
    by_arch: dict[str, list[KernelReport]] = {}
    for one, kernel in kernels:
        by_arch.setdefault(one.report.arch, []).append(kernel)
    rows = [["arch", "kernels", "that spill", "with scratch"]]
    for arch, its in by_arch.items():
        spill = sum(bool(one.resources.vgpr_spills or one.resources.sgpr_spills) for one in its)
        rows.append([arch, f"{len(its):,}", f"{spill:,}", f"{sum(bool(one.resources.scratch_bytes) for one in its):,}"])
    yield from _table(rows, frozenset(range(1, 4)))
    yield "", ""
    head = ["arch", "VGPR", "AGPR", "SGPR", "spilled", "LDS", "scratch", "threads", "waves", "kernel"]
    rows = [head, *(_overview_cells(one.report.arch, kernel) for one, kernel in kernels[:_OVERVIEW])]
    yield from _table(rows, frozenset(range(1, 9)))
    if len(kernels) > _OVERVIEW:
        yield f"{INDENT}and {len(kernels) - _OVERVIEW:,} more; --json has all", "dim"


def _overview_cells(arch: str, kernel: KernelReport) -> list[str]:
    found, occupancy = kernel.resources, kernel.occupancy
    figures = (found.vgprs, found.agprs, found.sgprs, found.vgpr_spills + found.sgpr_spills)
    memory = (found.lds_bytes, found.scratch_bytes, found.workgroup_size)
    waves = "" if occupancy is None else str(occupancy.waves_per_simd)
    return [arch, *map(str, (*figures, *memory)), waves, found.name]


def _table(rows: Sequence[Sequence[str]], right: frozenset[int]) -> Iterator[Line]:
    head, *texts = aligned(rows, right)
    yield INDENT + head, "dim"
    yield from ((INDENT + text, "") for text in texts)


def _listed(inspected: Sequence[_Inspected], *, several: bool) -> list[tuple[_Inspected, KernelReport]]:
    """The kernels whose instructions are shown: all, or the main one of the first code object that has one."""
    if several:
        return [(one, kernel) for one in inspected for kernel in one.report.kernels]
    mains = [(one, main_kernel(one.report)) for one in inspected]
    return [(one, kernel) for one, kernel in mains if kernel is not None][:1]


def _line_of_its_time(sources: SourceCache, file: Path, path: str, line: int) -> str | None:
    """A line of a source file; None if that is not there or has changed since the code object was written."""
    try:
        older = Path(path).stat().st_mtime <= file.stat().st_mtime
    except (OSError, ValueError):
        return None
    return sources.read_line(path, line) if older else None


async def _isa(
    found: CodeFile, inspected: Sequence[_Inspected], tools: LlvmTools | None, why: str, *, several: bool
) -> Isa:
    """The listings of kernels, with the figures of the whole file above them."""
    listed = _listed(inspected, several=several)
    if not listed:
        notes = "; ".join(note for one in inspected for note in one.report.notes)
        raise CkwatchError(f"{found.path} has no kernel to show", notes or None)
    if tools is None:
        raise CkwatchError(f"the instructions of {found.path.name} cannot be shown: {why}")
    lines = [f"; {text}".rstrip() for text, _ in file_lines(found, inspected)]
    views: list[IsaView] = []
    read_line = partial(_line_of_its_time, SourceCache(), found.path)
    for one, kernel in listed[:_LISTED]:
        view = await kernel_listing(one.code, kernel, tools, read_line)
        down = len(lines) + 1
        lines += ["", *view.text.removesuffix("\n").split("\n")]
        moved = [replace(line, line=line.line + down) for line in view.lines]
        folds = [replace(fold, start=fold.start + down, end=fold.end + down) for fold in view.folds]
        views.append(replace(view, lines=tuple(moved), folds=tuple(folds)))
    if len(listed) > _LISTED:
        lines += ["", f"; {len(listed) - _LISTED} more kernels: `ckwatch inspect FILE --isa --kernel NAME` shows them"]
    first, kernel = listed[0]
    return Isa(
        unit=first.title,
        artifact_key=code_key(first.code),
        fresh=True,
        kernel=kernel.resources.name,
        kernels=tuple(each.resources.name for each in first.report.kernels),
        text="\n".join([*lines, ""]),
        lines=tuple(line for view in views for line in view.lines),
        folds=tuple(fold for view in views for fold in view.folds),
        mnemonics={name: text for view in views for name, text in view.mnemonics.items()},
        has_lines=any(view.has_lines for view in views),
        notes=(*found.notes, *dict.fromkeys(note for view in views for note in view.notes)),
    )


async def inspect_file(path: Path, options: argparse.Namespace) -> int:
    """Print the figures of the code objects of a file, or the instructions of a kernel. Exit status 1 if there is no
    code that can be read. Raises CkwatchError for a file that cannot be read, and for a kernel or arch that is not in
    it."""
    output = Output(options)
    tools, why = await tools_for(options)
    with output.working(f"reading {path}"):
        found, inspected = await _inspected(path, options, tools, why, _ANALYZED)
        isa = None
        if (options.isa or options.whole) and inspected:
            isa = await _isa(found, inspected, tools, why, several=options.kernel is not None)
    if isa is not None:
        return output.both(isa, isa_lines(isa, whole=options.whole))
    output.answer(file=str(path), objects=[one.figures() for one in inspected], notes=found.notes)
    output.lines(file_lines(found, inspected))
    return 0 if inspected else 1


async def rank_files(paths: Sequence[Path], options: argparse.Namespace) -> int:
    """Print the kernels of files by what their main loops can do at best. Raises CkwatchError as `inspect_file`."""
    output = Output(options)
    tools, why = await tools_for(options)
    notes: list[str] = []
    kernels: list[tuple[str, str, str, KernelReport]] = []
    for path in paths:
        with output.working(f"reading {path}"):
            found, inspected = await _inspected(path, options, tools, why, _RANKED)
        notes += found.notes
        for one in inspected:
            notes += one.report.notes
            kernels += [(str(path), one.code.origin, one.report.arch, kernel) for kernel in one.report.kernels]
    ranked = await to_thread.run_sync(rank_loops, kernels)
    notes = list(dict.fromkeys(notes))
    output.answer(files=[str(path) for path in paths], ranked=ranked, left_out=NOT_RANKED, notes=notes)
    output.lines(ranked_lines(ranked, notes))
    return 0 if kernels else 1


_HEADS = {
    "matrix": ("", "kernel", "FLOP/clock", "×", "matrix units", "waves", "clocks", "file"),
    "memory": ("", "kernel", "B/clock", "×", "", "waves", "clocks", "file"),
}
_TITLES = {
    "matrix": "by the FLOPs of a SIMD per clock, at best",
    "memory": "by bytes of global memory per clock of one wave: what issuing costs, not what memory takes",
}
_RIGHT = frozenset({0, 2, 3, 4, 5, 6})


def ranked_lines(ranked: Sequence[RankedLoop], notes: Sequence[str]) -> Iterator[Line]:
    """The ranking for a terminal: how it is ranked stands above it, what it leaves out below."""
    for note in notes:
        yield note, "yellow"
    for arch, work in dict.fromkeys((one.arch, one.work) for one in ranked):
        rows = [one for one in ranked if (one.arch, one.work) == (arch, work)]
        if work is None:
            yield f"{arch}, no place:", "bold"
            yield from (
                (INDENT + text, "") for text in aligned([[one.kernel, one.because, _place(one)] for one in rows])
            )
            continue
        yield f"{arch}, main loops {_TITLES[work]} (predicted by llvm-mca, not measured)", "bold"
        head, *texts = aligned([_HEADS[work], *(_cells(one) for one in rows)], _RIGHT)
        yield INDENT + head, "dim"
        for one, text in zip(rows, texts, strict=True):
            yield INDENT + text, "bold green" if one.place == 1 else ""
    if ranked:
        yield f"{INDENT}left out: {'; '.join(NOT_RANKED)}", "dim"


def _cells(one: RankedLoop) -> list[str]:
    return [
        f"{one.place}",
        one.kernel,
        "" if one.rate is None else f"{one.rate:.4g}",
        "" if one.ratio is None else f"{one.ratio:.2f}",
        "" if one.matrix_use is None or one.work != "matrix" else f"{100 * one.matrix_use:.0f} % by one wave",
        "" if one.waves_per_simd is None else f"{one.waves_per_simd}",
        "" if one.clocks is None else f"{one.clocks:.0f}",
        _place(one),
    ]


def _place(one: RankedLoop) -> str:
    return ", ".join(filter(None, (one.file, one.origin)))
