"""Questions about timings: those that were taken, of the workspace as it is on disk, and those of others."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from typing import TYPE_CHECKING

from ckwatch.questions.endpoint import FileName, Pattern, UnitName, delete, get, post, put

if TYPE_CHECKING:
    from typing import Any

    from ckwatch.bench.imports.records import FormatName, ImportedTimingsFile
    from ckwatch.model.roofline import ProcessorRoof
    from ckwatch.model.timings import CacheName, Timing
    from ckwatch.wire.benchmarks import Baseline, Compared, Devices, RankedTiming, TimingDetail
    from ckwatch.wire.imported_timings import ImportedTiming, TimingsImport
    from ckwatch.wire.schema import BaselineName, Count, Name, SourceText, TimingNumber


def _is_of_a_kernel(asked: Any) -> None:
    if asked.shape is not None and asked.kernel is None:
        raise ValueError("a shape is one of a kernel")


class TimingQuestions:
    """Measurements, baselines, and timings of others."""

    @get("/devices")
    def devices(self, *, again: bool = False) -> Devices:
        """Devices to time units on, and why others cannot be used; with `again`, devices are searched anew."""

    @get("/processor-roof", slow=True)
    def processor_roof(self) -> ProcessorRoof:
        """Peak of the threads that host kernels have on the daemon's machine: measured once, which takes
        seconds, then kept in the store."""

    @get("/timings")
    def timings(self, unit: UnitName, shape: Name | None = None, limit: Count = 50) -> list[Timing]:
        """The last timings of a unit, newest first, those of earlier builds too."""

    @get("/timings/{number}")
    def timing(self, number: TimingNumber) -> list[TimingDetail]:
        """A measurement by its number (`Timing.id`) with its raw samples, one part for each cache state."""

    @get("/ranking", operation="ranking")
    def best(self, kernel: Name, shape: Name | None = None, cache: CacheName | None = None) -> list[RankedTiming]:
        """The instances of a kernel on its shapes by time, then those without a timing, and why.

        `cache`: by default cold where the workspace times so.
        """

    @get("/comparison", operation="comparison")
    def compare(self, unit: UnitName, against: UnitName, shape: Name | None = None) -> list[Compared]:
        """A unit's latest timings against another unit's, or `previous`, `library`, `baseline`, `baseline:NAME`."""

    @put("/baselines/{name}")
    def set_baseline(self, name: BaselineName, *patterns: Pattern) -> list[str]:
        """Let `name` be the latest timings of units; the ids of those that have any."""

    @get("/baselines")
    def baselines(self) -> list[Baseline]:
        """All baselines, the one that was set last first."""

    @delete("/baselines/{name}")
    def remove_baseline(self, name: BaselineName) -> int:
        """Remove a baseline; the number of its units."""

    @post("/imported-timings")
    def import_timings(
        self,
        path: FileName,
        format: FormatName | None = None,  # noqa: A002  # as the option is called
        source: SourceText | None = None,
        kernel: Name | None = None,
        device: SourceText | None = None,
    ) -> TimingsImport:
        """Keep the timings in a file of AITER's or Kernel Tuner's, instead of those that it had when it was imported
        before; what was read, what matches, and what was left out.

        `format`: by default detected. `source` names the origin, `kernel` which kernel of Kernel Tuner's
        results this is, by default that of the same name, and `device` where they were measured if the file does not
        say it.
        """

    @get("/imported-timings", check=_is_of_a_kernel)
    def imported_timings(
        self, kernel: Name | None = None, shape: Name | None = None, arch: Name | None = None
    ) -> list[ImportedTiming]:
        """Timings of others on the shapes of a kernel, or on one of them, the fastest first; all without a kernel.

        `arch`: only on devices of this arch, and on those whose arch is not known.
        """

    @get("/imported-files")
    def imported_files(self) -> list[ImportedTimingsFile]:
        """The files that timings were imported from, the last one first."""

    @delete("/imported-files")
    def remove_imported(self, path: FileName) -> None:
        """Drop the timings that were imported from a file."""
