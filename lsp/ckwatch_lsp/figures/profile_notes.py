"""Notes of a profile at the lines of a template: hints, how hot each line is, hovers, and a summary.

A profile of a large kernel has ten thousand instructions: `template_profile` looks at them once, in a thread.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.profile_cells import PROFILE_COLUMNS, profile_cells, waits_of
from ckwatch.model.profiles import KernelProfile, LineChange, ProfiledLine, ProfileFigures, ProfileHint
from ckwatch.wire.analysis import UnitProfile
from ckwatch_lsp.figures.pages import PageBlock, PageLine, PageTable, PageTitle

LEAST_SHARE = 0.1
"""Of the instructions, for a line on which nothing is lost."""

LEAST_SHARE_OF_CHANGE = 0.02
"""For a line that is issued more or less often, and nothing else."""

MOST_LINES = 6
"""That have a hint."""

HEAT = (0.01, 0.03, 0.1, 0.2)
"""The least share of the instructions for each level, the coolest first."""

SUMMED_LINES = 3
LISTED_LINES = 50
SINCE = {"previous": "since the last build", "baseline": "against the baseline"}


@dataclass(frozen=True, slots=True)
class LineNote:
    """The words at a line: a few words, the loss if there is one, and in words what costs more than before."""

    line: int
    label: str
    hint: ProfileHint | None = None
    worse: str = ""


@dataclass(frozen=True, slots=True)
class LineHeat:
    """A line's share of the instructions, and its level: 1 to 4."""

    line: int
    level: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateProfile:
    """A unit's profile at the lines of one template. `lines`: what is known of each."""

    profile: UnitProfile
    notes: tuple[LineNote, ...] = ()
    heat: tuple[LineHeat, ...] = ()
    summary: str = ""
    lines: Mapping[int, KnownLine]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLine:
    """A line of a kernel. `loops`: in words, the parts of its own instructions that are in loops."""

    kernel: KernelProfile
    line: ProfiledLine
    hint: ProfileHint | None
    change: str
    loops: str

    @property
    def share(self) -> float:
        return self.kernel.share(self.line.total)


def template_profile(profile: UnitProfile, path: str) -> TemplateProfile:
    """The profile at the template at `path`; runs in a thread."""
    own = {hint.line: hint for hint in profile.hints if hint.in_template and hint.path == path}
    hints = _of_calls(profile, path) | own
    changes = {one.line: one for one in profile.changes if one.in_template and one.path == path and not one.gone}
    lines: dict[int, KnownLine] = {}
    for kernel in profile.kernels:
        loops = _loops_by_line(kernel)
        for number, line in enumerate(kernel.lines):
            if not line.in_template or line.path != path:
                continue
            change = changes.get(line.line)
            words = "" if change is None else change_words(profile, change)
            known = KnownLine(
                kernel=kernel, line=line, hint=hints.get(line.line), change=words, loops=loops.get(number, "")
            )
            if line.line not in lines or lines[line.line].share < known.share:
                lines[line.line] = known
    heat = (LineHeat(line, sum(known.share >= least for least in HEAT), known.share) for line, known in lines.items())
    return TemplateProfile(
        profile=profile,
        notes=tuple(_notes(profile, lines, changes)),
        heat=tuple(sorted((one for one in heat if one.level), key=lambda one: one.line)),
        summary=summary(profile),
        lines=lines,
    )


def _of_calls(profile: UnitProfile, path: str) -> dict[int, ProfileHint]:
    """By line of the template, the largest loss at a line of a header that was called there."""
    found: dict[int, ProfileHint] = {}
    in_headers = [hint for hint in profile.hints if not hint.in_template]
    for kernel in profile.kernels if in_headers else ():
        places = {(line.path, line.line): number for number, line in enumerate(kernel.lines) if not line.in_template}
        for hint in in_headers:
            number = places.get((hint.path, hint.line))
            callers = {one for chain in kernel.chains if number in chain for one in chain}
            for line in (kernel.lines[one] for one in callers):
                if line.in_template and line.path == path:
                    found.setdefault(line.line, hint)
    return found


def _hint_words(hint: ProfileHint) -> str:
    return hint.text if hint.in_template else f"{hint.text} in {_place(hint.path, hint.line).rpartition('/')[2]}"


def _notes(profile: UnitProfile, lines: Mapping[int, KnownLine], changes: Mapping[int, LineChange]) -> list[LineNote]:
    """The lines that matter: first where something is lost or costs more than before, then what else changed, then
    those with many instructions."""
    ranked = []
    for line, known in lines.items():
        change = changes.get(line)
        if change is not None and not _matters(change, known.share):
            change = None
        worse = change is not None and change.worse
        if known.hint is None and change is None and known.share < LEAST_SHARE:
            continue
        if change is not None and (worse or known.hint is None):
            label = f"{change.texts[0]} {since(profile)}"
        else:
            label = f"{100 * known.share:.0f} % of instructions" if known.hint is None else _hint_words(known.hint)
        rank = 0 if known.hint is not None or worse else 1 if change is not None else 2
        ranked.append((rank, -known.share, LineNote(line, label, known.hint, known.change if worse else "")))
    ranked.sort(key=lambda one: one[:2])
    return sorted((note for _, _, note in ranked[:MOST_LINES]), key=lambda note: note.line)


def _matters(change: LineChange, share: float) -> bool:
    return share >= LEAST_SHARE_OF_CHANGE or any(not text.startswith("issues") for text in change.texts)


def since(profile: UnitProfile) -> str:
    """`since the last build`."""
    return SINCE.get(profile.against, f"against {profile.against}")


def change_words(profile: UnitProfile, change: LineChange) -> str:
    """`LDS conflict 1 → 16 ways, active lanes 100 → 50 % since the last build`."""
    return f"{', '.join(change.texts)} {since(profile)}"


def _loops_by_line(kernel: KernelProfile) -> dict[int, str]:
    """By the index of a line, where its own instructions are issued."""
    issued: defaultdict[int, Counter[int | None]] = defaultdict(Counter)
    for one in kernel.instructions:
        if one.at is not None and one.counts.issued:
            issued[one.at][one.loop] += one.counts.issued
    return {line: ", ".join(_loop_words(kernel, loops)) for line, loops in issued.items() if set(loops) != {None}}


def _loop_words(kernel: KernelProfile, issued: Counter[int | None]) -> Iterator[str]:
    for number, count in issued.most_common():
        place = "outside of loops"
        if number is not None:
            loop = kernel.loops[number]
            main = "the main loop, " if loop.main else ""
            place = f"in loop {number + 1} ({main}{loop.rounds:,} rounds)"
        yield f"{100 * count / issued.total():.0f} % {place}"


def summary(profile: UnitProfile) -> str:
    """`profile: 68 % of instructions in 3 lines; 16-way LDS conflict, 2 other losses`; "" without a profile."""
    issued = sum(kernel.total.counts.issued for kernel in profile.kernels)
    if not issued:
        return ""
    own = sorted((line.own.counts.issued for kernel in profile.kernels for line in kernel.lines), reverse=True)
    top = [count for count in own[:SUMMED_LINES] if count]
    found = [f"{100 * sum(top) / issued:.0f} % of instructions in {_lines(len(top))}"] if top else ["no source lines"]
    if profile.hints:
        others = len(profile.hints) - 1
        more = f", {others} other loss{'es' * (others > 1)}" if others else ""
        found.append(f"{profile.hints[0].text}{more}")
    worse = sum(one.worse for one in profile.changes)
    if worse:
        found.append(f"{_lines(worse)} worse {since(profile)}")
    return f"profile: {'; '.join(found)}"


def _lines(count: int) -> str:
    return f"{count} line{'s' * (count != 1)}"


def line_page(profiles: Sequence[tuple[str, TemplateProfile]], line: int) -> list[PageBlock]:
    """All figures of a line, of several instances (by name, the active one first); nothing where none issues there."""
    known = [(name, one.profile, one.lines[line]) for name, one in profiles if line in one.lines]
    if not known:
        return []
    _, profile, first = known[0]
    rows = tuple((name, *profile_cells(one.kernel, one.line.total)) for name, _, one in known)
    hint, waits = first.hint, waits_of(first.line.total)
    classes = ", ".join(f"{number:,} {kind}" for kind, number in first.line.total.mix.items())
    notes_shown = (
        "" if hint is None else hint_message(hint),
        "" if hint is None else hint.pattern,
        first.change,
        f"instructions: {classes}" if classes else "",
        f"waits for {waits}" if waits else "",
        first.loops,
        sampled_words(profile, first.line),
        counted_words(profile, first.kernel),
    )
    return [
        PageTitle("Profile", "of this line and what it calls"),
        PageTable(("instance", *PROFILE_COLUMNS[:-1]), tuple(row[:-1] for row in rows)),
        *(PageLine(text) for text in notes_shown if text),
    ]


def hint_message(hint: ProfileHint) -> str:
    """The loss, with the place in a header."""
    return hint.message if hint.in_template else f"{_place(hint.path, hint.line)}: {hint.message}"


def sampled_words(profile: UnitProfile, line: ProfiledLine) -> str:
    """The samples that a tool took at a line on a real device; empty where there is nothing."""
    found = profile.on_device
    if found is None:
        return ""
    weight = next((one for one in found.lines if (one.path, one.line) == (line.path, line.line)), None)
    if weight is None or not weight.weight:
        return ""
    taken = [
        found.source,
        found.device,
        f"build {found.artifact_key[:8]}",
        *["of another build"] * bool(found.other_build),
    ]
    waits = ", ".join(f"{100 * count / weight.weight:.0f} % {name}" for name, count in list(weight.stalls.items())[:3])
    share = f"{100 * weight.weight / found.total:.1f} % of {found.total:,} {found.weighed_by}"
    return f"sampled ({', '.join(filter(None, taken))}): {share}" + (f", not issued: {waits}" if waits else "")


def counted_words(profile: UnitProfile, kernel: KernelProfile) -> str:
    """Of what the counts are."""
    return (
        f"counted on {kernel.workgroups:,} of {kernel.all_workgroups:,} workgroups of {profile.shape} "
        f"({profile.device.replace(':', ' ', 1)}); no times"
    )


def profile_page(profile: UnitProfile) -> list[PageBlock]:
    """The whole profile: what is lost, what changed, and the lines and loops of each kernel."""
    blocks: list[PageBlock] = [PageTitle(profile.unit, summary(profile).removeprefix("profile: "))]
    if profile.failure:
        blocks.append(PageLine(f"the launch did not end as it should: {profile.failure}"))
    blocks += [
        PageLine("\n".join(filter(None, (f"{_place(hint.path, hint.line)}: {hint.message}", hint.pattern))))
        for hint in profile.hints
    ]
    blocks += [
        PageLine(f"{_place(one.path, one.line)}: {change_words(profile, one)}")
        for one in profile.changes[:LISTED_LINES]
    ]
    for kernel in profile.kernels:
        blocks.append(PageTitle(kernel.name, f"{kernel.total.counts.issued:,} instructions"))
        blocks.append(PageLine("\n".join((counted_words(profile, kernel), *kernel.notes))))
        blocks.append(_table("line of a template, with what it calls", kernel, _template_lines(kernel)))
        blocks.append(_table("line of a header, by itself", kernel, _header_lines(kernel)))
        loops = ((_loop_name(number, kernel), one.figures) for number, one in enumerate(kernel.loops))
        blocks.append(_table("loop, with inner ones", kernel, loops))
    return blocks


def _template_lines(kernel: KernelProfile) -> Iterator[tuple[str, ProfileFigures]]:
    found = [line for line in kernel.lines if line.in_template]
    for line in sorted(found, key=lambda line: -line.total.counts.issued):
        yield _place(line.path, line.line), line.total


def _header_lines(kernel: KernelProfile) -> Iterator[tuple[str, ProfileFigures]]:
    found = [line for line in kernel.lines if not line.in_template and line.own.counts.issued]
    for line in sorted(found, key=lambda line: -line.own.counts.issued):
        yield f"{_place(line.path, line.line)} {line.function}".rstrip(), line.own


def _loop_name(number: int, kernel: KernelProfile) -> str:
    loop = kernel.loops[number]
    return f"{'  ' * (loop.depth - 1)}loop {number + 1}, {loop.rounds:,} rounds" + ", the main loop" * loop.main


def _table(head: str, kernel: KernelProfile, rows: Iterable[tuple[str, ProfileFigures]]) -> PageTable:
    found = [(name, *profile_cells(kernel, figures)) for name, figures in rows if figures.counts.issued]
    return PageTable((head, *PROFILE_COLUMNS), tuple(found[:LISTED_LINES]))


def _place(path: str, line: int) -> str:
    """The last three parts of a path, by which headers are known."""
    return f"{'/'.join(path.rsplit('/', 3)[-3:])}:{line + 1}"
