"""`ckwatch verify`: builds kernels, has an emulator execute them, and prints what is wrong and where."""

from __future__ import annotations

import argparse

from anyio import to_thread

from ckwatch.cli.advice import advice_on
from ckwatch.cli.build_results import NO_COMPILER
from ckwatch.cli.command_words import code_path
from ckwatch.cli.mistakes import explained, report_mistakes, report_unbuilt
from ckwatch.cli.output import Output
from ckwatch.cli.session import asked_patterns, asking
from ckwatch.cli.verification_results import VerificationResults
from ckwatch.model.errors import CkwatchError, ToolchainError


async def run(options: argparse.Namespace) -> int:
    """Verify units, or the kernel of a file that a description names. Raises CkwatchError for words and options that do
    not go together."""
    paths = [path for word in options.words if (path := await to_thread.run_sync(code_path, word)) is not None]
    if len(paths) == len(options.words) == 1:
        from ckwatch.cli.code_file_verification import verify_file  # numpy comes with it

        return await verify_file(paths[0], options)
    if paths:
        raise CkwatchError("verify takes units, or one file with code objects", f"`ckwatch verify {paths[0]}`")
    if unfit := next((name for name in ("args", "write_args", "of_arch") if getattr(options, name) is not None), None):
        option = {"of_arch": "--arch"}.get(unfit, f"--{unfit.replace('_', '-')}")
        raise CkwatchError(f"{option} is for a file with code objects", "`ckwatch verify FILE --args args.toml`")
    return await _verify_units(options)


async def _verify_units(options: argparse.Namespace) -> int:
    """Verify units: 1 when a kernel or a reference is wrong or does not build, 2 when one cannot be verified, 3 when
    all is right but for results that were compared with nothing."""
    async with asking(options, options.words) as client:
        patterns = await asked_patterns(client, options.words)
        shown = VerificationResults(Output(options, client.root), allow_uncompared=options.allow_uncompared)
        verifying = client.verifying(*patterns, shapes=options.shape, force=options.force)
        async with explained(client, *patterns), verifying as lines:
            await shown.follow(lines)
        if NO_COMPILER in shown.reasons and (problem := (await client.workspace()).toolchain_problem):
            raise ToolchainError.of(problem)
        mistakes = await report_mistakes(client, shown.output, patterns)
        await report_unbuilt(client, shown.output, shown.broken)
        units = await client.units(*patterns)
        places = {unit.id: unit.place for unit in units}
        return shown.finish(places, mistakes.summary, await advice_on(client, shown.output, units))
