"""`ckwatch profile FILE --args args.toml`: where the work of a launch of any code object goes, without a daemon."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread

from ckwatch.cli.code_file_verification import described, emulator_of
from ckwatch.cli.code_files import code_key, opened
from ckwatch.cli.output import Output
from ckwatch.codeobject.profile_hints import hints_of
from ckwatch.codeobject.tools.code_file_analysis import analyze_code, disassemble_kernel
from ckwatch.model.emulated_archs import emulated_device, not_emulated
from ckwatch.model.errors import CkwatchError
from ckwatch.verification.code_launches import CodeLaunch, LaunchEmulator, count_launch
from ckwatch.verification.kernel_profiles import counted_profile
from ckwatch.verification.problems import profiled_trial
from ckwatch.wire.analysis import UnitProfile

if TYPE_CHECKING:
    from ckwatch.model.profiles import KernelProfile


async def profile_file(path: Path, options: argparse.Namespace, output: Output) -> UnitProfile:
    """Return the profile of the launch that `--args` describes, on `--shape` or the first shape that fits; of the code
    for `--arch`, or of the first that is emulated. Raises CkwatchError for options that a file cannot have, and where
    nothing could be executed, and as `verify_file`."""
    unfit = {"--device": options.device, "--against": options.against}
    if given := [name for name, value in unfit.items() if value is not None]:
        raise CkwatchError(f"{given[0]} is for units, and {path} is a file")
    if options.args is None:
        raise CkwatchError(
            "a file does not say how its kernel is launched: --args is missing",
            f"`ckwatch verify {path} --write-args args.toml` writes a description to begin with",
        )
    file = await opened(path, options.of_arch)
    _, launches = await described(file, options)
    one = next((each for each in launches if emulated_device(each.code.arch) is not None), None)
    if one is None:
        there = ", ".join(each.code.arch for each in launches)
        raise CkwatchError(f"{path} cannot be executed: {not_emulated(there)}")
    emulator = await emulator_of(options)
    with output.working(f"executing {one.resources.name} on the emulator"):
        return await launch_profile(one, emulator, options.shape)


async def launch_profile(one: CodeLaunch, emulator: LaunchEmulator, shape: str | None) -> UnitProfile:
    """The profile of a launch; as `profile_file`."""
    trial = await to_thread.run_sync(profiled_trial, one.unit, shape)
    launched = await count_launch(one, trial, emulator)
    counts = next((each for each in launched.kernels if each.symbol == one.launch.symbol), None)
    if counts is None:
        raise CkwatchError(f"{one.resources.name} was not executed: {launched.failure or 'its grid is empty'}")
    (report,) = await analyze_code([one.code], emulator.tools)
    kernel = next(each for each in report.kernels if each.resources.symbol == one.launch.symbol)
    function, frames, why_not = await disassemble_kernel(one.code, kernel, emulator.tools)

    def profiled() -> KernelProfile:
        found = counted_profile(function, kernel, counts, one.code.arch, frames=frames, rendered=None)
        return replace(found, notes=(why_not, *found.notes)) if why_not else found

    kernels = (await to_thread.run_sync(profiled),)
    return UnitProfile(
        unit=one.unit.id,
        artifact_key=code_key(one.code),
        device=emulated_device(one.code.arch) or one.code.arch,
        shape=trial.shape,
        shape_name=trial.name,
        kernels=kernels,
        hints=await to_thread.run_sync(hints_of, kernels),
        executed=launched.executed,
        failure=launched.failure,
    )
