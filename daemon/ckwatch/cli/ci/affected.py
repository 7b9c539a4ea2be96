"""Which units a change affects: those that are made from a file that differs and are not the same without it, new ones,
and those that are gone, some of which were renamed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

import anyio

from ckwatch.model.errors import plain_errors
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.workspace.discovery import FILE_NAME

if TYPE_CHECKING:
    from ckwatch.engine.workspace_outcomes import UnitSources, WorkspaceOutcomes
    from ckwatch.model.kernels import Unit

NO_HEADERS = (".j2", ".toml", ".py", ".npy", ".md", ".txt", ".yml", ".yaml", ".json", ".lock", ".cfg", ".sh")
"""Ends of names of files that no kernel includes."""


@dataclass(frozen=True, slots=True)
class Touched:
    """The files that a run is about, as absolute paths, and folders with all that is in them. `deleted` are those
    that only the base has."""

    files: frozenset[str]
    folders: tuple[str, ...] = ()
    deleted: frozenset[str] = frozenset()

    def among(self, paths: Iterable[str]) -> set[str]:
        """Those of `paths` that it is about."""
        return {path for path in paths if path in self.files or path.startswith(self.folders)}

    @property
    def may_be_headers(self) -> bool:
        """Return True if a header may be among them."""
        return bool(self.folders) or any(not path.endswith(NO_HEADERS) for path in self.files)

    @property
    def deleted_headers(self) -> bool:
        """Return True if a header may be among those that are gone."""
        return any(not path.endswith(NO_HEADERS) for path in self.deleted)


@dataclass(frozen=True, slots=True)
class Affected:
    """A unit that a change affects: as it is `now` and `before`, None where it does not exist. `because`: files of
    `Touched` that it is made from. `is_same`: nothing that has a part in its outcome differs."""

    now: Unit | None
    before: Unit | None
    because: frozenset[str] = frozenset()
    is_same: bool = False

    @property
    def id(self) -> str:
        """Its name, that of the base for one that is gone."""
        unit = self.now or self.before
        return "" if unit is None else unit.id


@dataclass(eq=False)
class AffectedSearch:
    """Compares two states of a workspace: `now` in a repository's folder `root`, `base` in the tree `base_root`; None
    where the base has no such workspace. `chosen`: the touched files were named, and what depends on them is meant
    also where it is the same."""

    now: WorkspaceOutcomes
    base: WorkspaceOutcomes | None
    root: str
    base_root: str
    touched: Touched
    chosen: bool = False
    _found: dict[str, Affected] = field(default_factory=dict, init=False)

    async def find(self) -> list[Affected]:
        """The affected units, in the order of the kernel files, then those that are gone."""
        old = {} if self.base is None else self.base.units
        async with plain_errors(), anyio.create_task_group() as tasks:
            for unit in self.now.units.values():
                tasks.start_soon(self._look_at, unit, old.get(unit.id))
        kept = [self._found[name] for name in self.now.units if name in self._found]
        gone = [unit for name, unit in old.items() if name not in self.now.units and self._is_meant(unit)]
        return await self._renamed(kept, gone)

    def _is_meant(self, gone: Unit) -> bool:
        """Return True for a unit that only the base has, unless others were chosen."""
        return not self.chosen or bool(self.touched.among([gone.kernel.path.replace(self.base_root, self.root, 1)]))

    async def _look_at(self, unit: Unit, before: Unit | None) -> None:
        sources = await self.now.sources(unit, self.root)
        because = self.touched.among(sources.texts | sources.missed | (sources.headers or frozenset()))
        settings = self.touched.among([f"{self.now.root}/{FILE_NAME}"])
        hidden = sources.headers is None and self.touched.may_be_headers
        if before is None:
            if not self.chosen or because or settings or hidden:
                self._found[unit.id] = Affected(unit, None, frozenset(because))
            return
        if not (because or settings or hidden or self.touched.deleted_headers):
            return
        is_same = not hidden and await self._is_same(unit, before, sources)
        if not is_same or (self.chosen and (because or settings)):
            self._found[unit.id] = Affected(unit, before, frozenset(because | settings), is_same=is_same)

    async def _is_same(self, unit: Unit, before: Unit, sources: UnitSources) -> bool:
        if self.base is None:
            return False
        known = await self.base.sources(before, self.base_root)
        if known.headers is None or sources.headers is None:
            return False
        headers = {path.replace(self.base_root, self.root, 1) for path in known.headers} | sources.headers
        if self.touched.among(headers - sources.texts):
            return False
        now = await self.now.identity(unit, (self.base_root, self.root))
        return bool(now) and now == await self.base.identity(before, (self.base_root, self.root))

    async def _renamed(self, kept: list[Affected], gone: Sequence[Unit]) -> list[Affected]:
        """Join units that are gone with new ones that differ in their names alone, or have the same parameters."""
        new = [one for one in kept if one.before is None and one.now is not None]
        if self.base is None or not gone or not new:
            return [*kept, *(Affected(None, unit) for unit in gone)]
        pairs: dict[str, Unit] = {}
        left = dict.fromkeys(range(len(gone)))
        texts_now = {one.id: await self.now.anonymous(one.now) for one in new if one.now is not None}
        texts_before = [await self.base.anonymous(unit) for unit in gone]
        for names_now, names_before in (
            (texts_now, texts_before),
            (
                {one.id: _parameters(one.now) for one in new if one.now is not None},
                [_parameters(unit) for unit in gone],
            ),
        ):
            _pair(names_now, names_before, gone, pairs, left)
        joined = [Affected(one.now, pairs[one.id], one.because) if one.id in pairs else one for one in kept]
        return [*joined, *(Affected(None, gone[at]) for at in left)]


def _parameters(unit: Unit) -> str:
    """Equal for units of one template with the same parameters."""
    return repr((unit.arch, unit.kernel.template, sorted(unit.instance.parameters.items(), key=str)))


def _pair(
    now: Mapping[str, str], before: Sequence[str], gone: Sequence[Unit], pairs: dict[str, Unit], left: dict[int, None]
) -> None:
    """Add pairs of equal texts, where they are not ambiguous, and take them out of `left`."""
    free = {name: text for name, text in now.items() if name not in pairs and text}
    counts = Counter(free.values())
    others = Counter(before[at] for at in left)
    by_text = {before[at]: at for at in left}
    for name, text in free.items():
        if counts[text] == others[text] == 1:
            at = by_text[text]
            pairs[name] = gone[at]
            del left[at]
