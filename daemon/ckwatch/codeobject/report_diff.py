"""Compares the reports of two artifacts of a unit, and says which figures of a report deserve a warning."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ckwatch.codeobject.report import CodeObjectReport, KernelReport, MainLoop, Occupancy, OccupancyLimit, main_kernel
from ckwatch.model.amounts import count
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Span

FigureValue = float | str | None


@dataclass(frozen=True, slots=True)
class KernelFigure:
    """A figure of a kernel: its name and unit, how to read it, and whether more of it is worse (None: neither)."""

    name: str
    of: Callable[[KernelReport], FigureValue]
    unit: str = ""
    more_is_worse: bool | None = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureChange:
    """A figure before and now. `worse`: None where it is not known, or where both are equal."""

    name: str
    before: str
    now: str
    worse: bool | None = None

    def __str__(self) -> str:
        """`VGPR 189 → 201`."""
        return f"{self.name} {self.before} → {self.now}"


def _in_loop(read: Callable[[MainLoop], FigureValue]) -> Callable[[KernelReport], FigureValue]:
    return lambda kernel: None if kernel.loop is None else read(kernel.loop)


def _in_occupancy(read: Callable[[Occupancy], FigureValue]) -> Callable[[KernelReport], FigureValue]:
    return lambda kernel: None if kernel.occupancy is None else read(kernel.occupancy)


def _percent(part: float | None) -> FigureValue:
    return None if part is None else 100 * part


FIGURES = (
    KernelFigure("VGPR", lambda kernel: kernel.resources.vgprs),
    KernelFigure("AGPR", lambda kernel: kernel.resources.agprs),
    KernelFigure("SGPR", lambda kernel: kernel.resources.sgprs),
    KernelFigure("spilled VGPR", lambda kernel: kernel.resources.vgpr_spills),
    KernelFigure("spilled SGPR", lambda kernel: kernel.resources.sgpr_spills),
    KernelFigure("scratch", lambda kernel: kernel.resources.scratch_bytes, " B"),
    KernelFigure("LDS", lambda kernel: kernel.resources.lds_bytes, " B"),
    KernelFigure("workgroup", lambda kernel: kernel.resources.workgroup_size, more_is_worse=None),
    KernelFigure("kernarg", lambda kernel: kernel.resources.kernarg_bytes, " B", more_is_worse=None),
    KernelFigure("occupancy", _in_occupancy(lambda found: found.waves_per_simd), more_is_worse=False),
    KernelFigure("limited by", _in_occupancy(lambda found: str(found.limited_by)), more_is_worse=None),
    KernelFigure("code size", lambda kernel: kernel.code_bytes, " B", more_is_worse=None),
    KernelFigure(
        "loop instructions", _in_loop(lambda loop: sum(loop.mix.values()) if loop.mix else None), more_is_worse=None
    ),
    KernelFigure("loop LDS reads", _in_loop(lambda loop: loop.lds_read_bytes), " B", more_is_worse=None),
    KernelFigure("loop LDS writes", _in_loop(lambda loop: loop.lds_write_bytes), " B", more_is_worse=None),
    KernelFigure("loop global loads", _in_loop(lambda loop: loop.global_load_bytes), " B", more_is_worse=None),
    KernelFigure("loop global stores", _in_loop(lambda loop: loop.global_store_bytes), " B", more_is_worse=None),
    KernelFigure("loop FLOPs", _in_loop(lambda loop: loop.flops), more_is_worse=None),
    KernelFigure("loop FLOP/B", _in_loop(lambda loop: loop.intensity), more_is_worse=False),
    KernelFigure("predicted loop clocks", _in_loop(lambda loop: loop.clocks), more_is_worse=None),
    KernelFigure("predicted MFMA use", _in_loop(lambda loop: _percent(loop.matrix_use)), " %", more_is_worse=False),
)
"""All that is compared, in the order in which it is reported. Figures of a loop are of one iteration of one wave:
whether more of them is worse depends on how much one iteration does."""

KERNEL_KEYS: tuple[Callable[[KernelReport], str], ...] = (
    lambda kernel: kernel.resources.symbol,
    lambda kernel: kernel.resources.name,
)


def compare_kernels(before: KernelReport, now: KernelReport) -> tuple[FigureChange, ...]:
    """The figures that read differently."""
    return tuple(each for each in _compared(FIGURES, before, now) if each.before != each.now)


def all_figures(before: KernelReport | None, now: KernelReport | None) -> tuple[FigureChange, ...]:
    """All figures, also those that are equal; then what each resource alone would allow, and the instructions of the
    loop by class. All of a kernel that is None is unknown."""
    allowed = {
        str(limit): None for one in (now, before) if one is not None and one.occupancy for limit in one.occupancy.by
    }
    mix = {kind: None for one in (now, before) if one is not None and one.loop for kind in one.loop.mix}
    more = (
        *(KernelFigure(f"waves per SIMD by {limit}", _by(limit), more_is_worse=None) for limit in allowed),
        *(KernelFigure(f"loop: {kind}", _of_kind(kind), more_is_worse=None) for kind in mix),
    )
    return _compared((*FIGURES, *more), before, now)


def _by(limit: str) -> Callable[[KernelReport], FigureValue]:
    return _in_occupancy(lambda found: found.by.get(OccupancyLimit(limit)))


def _of_kind(kind: str) -> Callable[[KernelReport], FigureValue]:
    return _in_loop(lambda loop: loop.mix.get(kind, 0))


def _compared(
    figures: Sequence[KernelFigure], before: KernelReport | None, now: KernelReport | None
) -> tuple[FigureChange, ...]:
    found: list[FigureChange] = []
    for figure in figures:
        old, new = (None if kernel is None else figure.of(kernel) for kernel in (before, now))
        worse = _is_worse(old, new, figure.more_is_worse)
        texts = _figure_text(old, figure.unit), _figure_text(new, figure.unit)
        found.append(FigureChange(name=figure.name, before=texts[0], now=texts[1], worse=worse))
    return tuple(found)


def changed_figures(before: KernelReport, now: KernelReport) -> list[str]:
    """`VGPR 189 → 201`, `occupancy 2 → 1`, `predicted MFMA use 95 % → 88 %`; empty when nothing reads differently."""
    return [str(changed) for changed in compare_kernels(before, now)]


def match_kernels(
    before: CodeObjectReport, now: CodeObjectReport
) -> tuple[tuple[KernelReport | None, KernelReport | None], ...]:
    """Each kernel with what it was before: by its symbol, else its name; else those that do the work, and, where as
    many are left, in order.

    Kernels that are new have None before them, those that are gone stand at the end with None after them.
    """
    old, partners = list(before.kernels), dict[int, KernelReport]()
    for key in KERNEL_KEYS:
        for at, kernel in enumerate(now.kernels):
            if at not in partners:
                found = next((each for each in old if key(each) == key(kernel)), None)
                if found is not None:
                    partners[at] = found
                    old.remove(found)
    at = next((at for at, kernel in enumerate(now.kernels) if kernel is main_kernel(now)), 0)
    worked = main_kernel(before)
    if now.kernels and at not in partners and any(kernel is worked for kernel in old) and worked is not None:
        partners[at] = worked
        old.remove(worked)
    left = [at for at in range(len(now.kernels)) if at not in partners]
    if len(left) == len(old):
        partners.update(zip(left, old, strict=True))
        old = []
    return (
        *((partners.get(at), kernel) for at, kernel in enumerate(now.kernels)),
        *((kernel, None) for kernel in old),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelWarning:
    """A warning about a kernel: `code` as in diagnostics, `kernel` its readable name."""

    code: str
    message: str
    kernel: str


def warnings_of(
    now: CodeObjectReport, before: CodeObjectReport | None = None, lds_limit_bytes: int | None = None
) -> tuple[KernelWarning, ...]:
    """Spills, scratch beside them, LDS beyond what a workgroup may have, and, against `before`, a lower occupancy."""
    pairs = [(None, kernel) for kernel in now.kernels] if before is None else match_kernels(before, now)
    found: list[KernelWarning] = []
    for old, kernel in pairs:
        if kernel is not None:
            name = kernel.resources.name
            found += [
                KernelWarning(code=code, message=text, kernel=name)
                for code, text in _resource_warnings(kernel, lds_limit_bytes)
            ]
            drop = None if old is None else _occupancy_drop(old, kernel)
            if drop is not None:
                found.append(KernelWarning(code="performance/occupancy", message=drop, kernel=name))
    return tuple(found)


def warning_diagnostics(
    warned: Sequence[KernelWarning], *, unit: str, span: Span, source: Source
) -> tuple[Diagnostic, ...]:
    """A warning at `span`, the instance, for each message; kernels that share one are named in its detail."""
    kernels: dict[tuple[str, str], list[str]] = {}
    for each in warned:
        kernels.setdefault((each.code, each.message), []).append(each.kernel)
    return tuple(
        Diagnostic(
            severity=Severity.WARNING,
            source=source,
            code=code,
            message=message,
            span=span,
            detail="\n".join(f"in {name}" for name in names),
            units=(unit,),
            unit_count=1,
        )
        for (code, message), names in kernels.items()
    )


def _resource_warnings(kernel: KernelReport, lds_limit_bytes: int | None) -> list[tuple[str, str]]:
    resources, found = kernel.resources, []
    spilled = [
        count(number, kind)
        for number, kind in ((resources.vgpr_spills, "VGPR"), (resources.sgpr_spills, "SGPR"))
        if number
    ]
    if spilled:
        scratch = f" ({resources.scratch_bytes} B of scratch per lane)" if resources.scratch_bytes else ""
        found.append(("performance/spill", f"{' and '.join(spilled)} spilled{scratch}"))
    if lds_limit_bytes is not None and resources.lds_bytes > lds_limit_bytes:
        found.append(
            ("performance/lds", f"{resources.lds_bytes} B of LDS: a workgroup may have at most {lds_limit_bytes} B")
        )
    return found


def _occupancy_drop(before: KernelReport, now: KernelReport) -> str | None:
    if before.occupancy is None or now.occupancy is None:
        return None
    old, new = before.occupancy.waves_per_simd, now.occupancy.waves_per_simd
    if new >= old:
        return None
    step = f"; {now.occupancy.next_step}" if now.occupancy.next_step else ""
    return f"occupancy {old} → {new} waves per SIMD, limited by {now.occupancy.limited_by}{step}"


def _is_worse(before: FigureValue, now: FigureValue, more_is_worse: bool | None) -> bool | None:
    if more_is_worse is None or not isinstance(before, (int, float)) or not isinstance(now, (int, float)):
        return None
    return None if before == now else (now > before) is more_is_worse


def _figure_text(value: FigureValue, unit: str) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, float):
        value = f"{value:.0f}" if abs(value) >= 10 else f"{value:.3g}"
    return f"{value}{unit}"
