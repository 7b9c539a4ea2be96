"""Questions about one unit or several, and building them."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from ckwatch.questions.endpoint import FileName, Names, Pattern, SentAs, UnitName, follow, get, post

if TYPE_CHECKING:
    from ckwatch.model.diagnostics import Diagnostic
    from ckwatch.wire.analysis import (
        Analysis,
        Calibrated,
        Isa,
        OccupancySteps,
        PredictedRanking,
        UnitDeviceProfile,
        UnitProfile,
    )
    from ckwatch.wire.benchmarks import BenchLine
    from ckwatch.wire.messages import Artifact, PlannedUnit, RenderedText, Run, TimeTrace, UnitDetail
    from ckwatch.wire.rows import UnitRow
    from ckwatch.wire.schema import Count, DeviceName, LimitUs, Name, PartName, Seed, UnitIds
    from ckwatch.wire.state import BuildLine, Unit
    from ckwatch.wire.unit_changes import UpgradeLine
    from ckwatch.wire.verification import UnitVerification, VerifyLine


class UnitQuestions:
    """Units: their states, their results, and building, timing and verifying them."""

    @get("/units", viewed=True)
    def units(self, *patterns: Pattern) -> list[Unit]:
        """The state of units, in the order of the kernel files."""

    @post("/unit-rows", viewed=True)
    def unit_rows(self, units: UnitIds) -> list[UnitRow]:
        """Those of up to 200 units that exist, as rows with their timings."""

    @get("/units/{unit}", viewed=True)
    def unit(self, unit: UnitName) -> UnitDetail:
        """All that is known of one unit: parameters and where they stand, files read, why it is in its state."""

    @get("/plan", viewed=True)
    def plan(self, *patterns: Pattern) -> list[PlannedUnit]:
        """The step that a build would take now for each unit, and why, without compiling."""

    @get("/units/{unit}/source", viewed=True, operation="source")
    def rendered(self, unit: UnitName, *, with_map: Annotated[bool, SentAs("map")] = False) -> RenderedText:
        """The text that the template gives; with a map, also where each piece of it came from."""

    @get("/units/{unit}/artifact", viewed=True)
    def artifact(self, unit: UnitName) -> Artifact | None:
        """The unit's last artifact, fresh or not; None without one."""

    @get("/units/{unit}/verification", viewed=True)
    def verification(self, unit: UnitName) -> UnitVerification:
        """The verification of the unit's present artifact, or why there is none; builds and executes nothing."""

    @get("/units/{unit}/runs")
    def runs(self, unit: UnitName, limit: Count = 20) -> list[Run]:
        """The unit's last compiles, the newest first."""

    @post("/units/{unit}/runner", viewed=True)
    def runner(self, unit: UnitName, path: FileName) -> None:
        """Write a standalone program that runs and verifies a unit, which must have been built, to `path`."""

    @post("/units/{unit}/time-trace", viewed=True, slow=True, retry="unsent")
    def time_trace(self, unit: UnitName, path: FileName | None = None) -> TimeTrace:
        """Compile the unit, even if the store has it, and return where the time goes.

        `path`: a file for clang's traces of its passes, as one file for chrome://tracing.
        """

    @get("/units/{unit}/analysis", viewed=True)
    def analysis(self, unit: UnitName) -> Analysis:
        """Resources, occupancy, main loop and predictions of a unit's code object, which must be built."""

    @get("/units/{unit}/occupancy-steps", viewed=True)
    def occupancy_steps(self, unit: UnitName) -> OccupancySteps:
        """Changes of the unit's parameters that the instance rules accept and that may raise its occupancy, by an
        estimate of registers and LDS. The unit must be built."""

    @get("/units/{unit}/isa", viewed=True, slow=True)
    def isa(
        self, unit: UnitName, kernel: Annotated[Name | None, SentAs("symbol")] = None, *, lines: bool = True
    ) -> Isa:
        """The disassembly of the unit's main kernel, or of that with this readable name or symbol, as text with folds.

        `lines`: with source lines, for which its device code is compiled once more (seconds to a minute, then kept);
        without, only if that has been done already.
        """

    @get("/units/{unit}/profile", viewed=True, slow=True)
    def profile(
        self, unit: UnitName, shape: Name | None = None, *, lines: bool = True, against: Name | None = None
    ) -> UnitProfile:
        """The work of a unit's artifact by place: issues, lanes, cache lines and LDS conflicts by line, instruction,
        loop and function, counted on an emulator.

        `shape`: a name, or sizes (`M=64,N=64,K=128`); the kernel file's first without. `lines`: as those of `isa`.
        `against`: also what is different from the `previous` artifact or that of the `baseline` (`baseline:NAME`), as
        far as they were profiled on the shape, or from another unit.
        """

    @post("/units/{unit}/device-profile", viewed=True, slow=True, retry="unsent")
    def profile_on_device(self, unit: UnitName, device: DeviceName, shape: Name | None = None) -> UnitDeviceProfile:
        """Launch a unit on `device` under its vendor's profiler (rocprofv3, ncu), and return what was sampled by line.

        It is compiled once more with line tables. `shape`: as that of `profile`.
        """

    @post("/units/{unit}/imported-profile", viewed=True, slow=True, retry="unsent")
    def import_profile(self, unit: UnitName, path: FileName) -> UnitDeviceProfile:
        """Keep the profile in a file of rocprofv3 or ncu beside the unit's artifact, lines of its text at its template.

        Raises CkwatchError for a file that is none, and for a unit that is not built.
        """

    @get("/advice", viewed=True, slow=True)
    def advice(self, *patterns: Pattern) -> list[Diagnostic]:
        """Return why the kernels of built units spill or have few waves, each with the change that a compile has
        confirmed.

        Changed sources are compiled when nothing else is to be done (seconds to a minute for each kernel, then kept).
        """

    @get("/calibration")
    def calibration(self) -> Calibrated:
        """Errors of predictions, over all units with a fresh timing."""

    @get("/predictions", viewed=True)
    def predicted(
        self, kernel: Name, shape: Name | None = None, *, arch: Name | None = None, part: PartName = ""
    ) -> PredictedRanking:
        """The compiled instances of a kernel by predicted time on a shape, by default its first, for a part (`MI300X`)
        of the arch."""

    @follow("/builds", action="build", operation="build")
    def building(
        self,
        *patterns: Pattern,
        force: bool = False,
        check_only: bool = False,
        finish: bool = False,
        toolchains: Names | None = None,
        lines: bool = False,
    ) -> BuildLine:
        """Build units and see them settle: lines `start`, `unit` for each, `done`.

        Leaving the context before the end, in any way, cancels what no other client waits for. `force` compiles what
        the store has; `check_only` compiles nothing. With `finish` compilers that have begun go on into the store, with
        `lines` what is compiled has the line tables that a profile by lines or a listing needs.
        `toolchains`: names or folders of those that units are built with instead, or checked by their compilers with
        `check_only`; `all` are the workspace's own and those of `[toolchain] also`.
        """

    @post("/cancel", viewed=True)
    def cancel(self, *patterns: Pattern) -> list[str]:
        """Stop compiling units until they are edited or asked for; the ids of those that were being worked on."""

    @follow("/benchmarks", action="benchmark", retry="unsent")
    def bench(
        self,
        *patterns: Pattern,
        shapes: Names | None = None,
        device: DeviceName | None = None,
        force: bool = False,
        race: bool = False,
        limit_us: LimitUs | None = None,
        flush_instructions: bool = False,
    ) -> BenchLine:
        """Build units and time them, as this client sees them; leaving the context gives up what no other one wants.

        `shapes` names some of their kernel files' shapes. What is known is not measured again unless by `force`.
        `device` overrides the workspace's choice; another machine's is named `gpu-box/hip:0`. Units are timed side by
        side on devices that are alike. `race`: units that compete, which are timed as briefly as the precision allows,
        and given up when they are certainly slower than `limit_us`. `flush_instructions`: with empty instruction
        caches, whatever the workspace says.
        """

    @follow("/verifications", action="verification", operation="verify")
    def verifying(
        self,
        *patterns: Pattern,
        shapes: Names = (),
        force: bool = False,
        against: Name | None = None,
        seed: Seed | None = None,
    ) -> VerifyLine:
        """Build units and have an emulator execute them: lines `start`, `began` and `stage`, `unit` for each, `done`.

        Leaving the context before the end cancels what no other client waits for. `shapes`: names of shapes, or sizes
        (`M=64,N=64,K=128`), on which alone they are executed. `force` executes again what is known. `against`: one of
        the units, by whose operation and shapes all of them are judged, on problems that are drawn, by `seed` where it
        is given.
        """

    @follow("/upgrades", action="upgrade", operation="upgrade")
    def upgrading(self, *patterns: Pattern, to: Name, verify: bool = True) -> UpgradeLine:
        """Build units with the present toolchain and with another: lines `start`, `stage`, `unit` with what would
        change, `done`.

        `to`: an installed one, a ROCm tree, or a folder of Composable Kernel's headers. What is built goes to the store
        and nowhere else. Leaving the context before the end stops it. `verify`: have an emulator execute it.
        """
