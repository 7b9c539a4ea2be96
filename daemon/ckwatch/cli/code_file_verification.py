"""`ckwatch verify FILE --args args.toml`: verifies the kernel of a code object from anywhere, without a daemon."""

from __future__ import annotations

import argparse
import shlex
import sys
from functools import partial
from pathlib import Path

from anyio import to_thread

from ckwatch.bench.worker_protocol import WorkerMessage, WorkerStage
from ckwatch.cli.code_files import code_key, opened
from ckwatch.cli.command_words import dependency
from ckwatch.cli.output import Output, write_file
from ckwatch.cli.trust import require_trust, trusted_workspace
from ckwatch.cli.verification_results import VerificationResults
from ckwatch.codeobject.code_files import CodeFile
from ckwatch.compile.store.artifacts import default_folder
from ckwatch.compile.toolchain.discover import discover
from ckwatch.model.emulated_archs import emulated_device, not_emulated
from ckwatch.model.errors import CkwatchError
from ckwatch.system.user_files import is_there
from ckwatch.verification.code_launches import CodeLaunch, LaunchEmulator, launches_of, verify_launch
from ckwatch.verification.launch_starter import starting_description
from ckwatch.verification.library import FOLDER, build_library
from ckwatch.verification.problems import trials_asked, trials_of
from ckwatch.verification.session import REFERENCES
from ckwatch.wire.verification import UnitVerification, VerifyLine
from ckwatch.workspace.launch_file import LaunchDescription, read_launch_file
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.settings import Settings


async def verify_file(path: Path, options: argparse.Namespace) -> int:
    """Verify the kernel that `--args` describes, of each arch: the exit status as of units. Without a description print
    or write one to begin with: exit status 2 where it is printed instead of a verification.

    Raises CkwatchError for a file that cannot be read, DiagnosedError for mistakes in the description, UntrustedError
    where its reference may not run.
    """
    output = Output(options)
    file = await opened(path, options.of_arch)
    if options.args is None or options.write_args is not None:
        return await _begin(file, options, output)
    description, launches = await described(file, options)
    emulator = await emulator_of(options)
    shown = VerificationResults(output, allow_uncompared=options.allow_uncompared)
    with output.working("starting") as show:
        shown.take(VerifyLine(event="start", units=len(launches)), show)
        asked = trials_asked([one.unit for one in launches], options.shape) if options.shape else {}
        for one in launches:
            name = one.unit.id

            def stage(message: WorkerMessage, name: str = name) -> None:
                if isinstance(message, WorkerStage):
                    shown.take(VerifyLine(event="stage", unit=name, text=message.name), show)

            shown.take(VerifyLine(event="began", unit=name), show)
            if emulated_device(one.code.arch) is None:
                result = UnitVerification(unit=name, outcome="not verified", summary=not_emulated(one.code.arch))
            else:
                trials = asked[name] if options.shape else await to_thread.run_sync(trials_of, one.unit)
                found = await verify_launch(one, trials, emulator, stage)
                result = UnitVerification(
                    unit=name,
                    outcome=found.outcome.value,
                    summary=found.summary,
                    artifact_key=code_key(one.code),
                    verification=found,
                )
            shown.take(VerifyLine(event="unit", unit=name, outcome="built", result=result), show)
    places = {one.unit.id: description.kernel.instances[0].span for one in launches}
    warnings = {launches[0].unit.id: tuple(description.problems.found)} if description.problems.found else {}
    return shown.finish(places, "", warnings)


async def described(file: CodeFile, options: argparse.Namespace) -> tuple[LaunchDescription, tuple[CodeLaunch, ...]]:
    """The description that `--args` names, and the launches of the file's code objects by it. Raises as
    `verify_file`."""
    description = await to_thread.run_sync(read_launch_file, options.args.absolute())
    launches = launches_of(file, description)
    if description.kernel.operation.reference is not None:
        folder = options.args.absolute().parent
        await to_thread.run_sync(partial(require_trust, folder, options, code=REFERENCES))
    return description, launches


async def emulator_of(options: argparse.Namespace) -> LaunchEmulator:
    """The emulator by the toolchain and the settings of the workspace that the command is run in, as far as that one is
    trusted. Raises ToolchainError without a toolchain."""
    root = await to_thread.run_sync(trusted_workspace, options)
    settings = Settings() if root is None else (await to_thread.run_sync(load_workspace, root)).settings
    choice = None if root is None else settings.toolchain
    toolchain = await to_thread.run_sync(dependency(options, "discover", discover), choice)
    store = settings.store.folder or default_folder()
    build = dependency(options, "build_library", build_library)
    return LaunchEmulator(
        library=await build(store / FOLDER, toolchain.clang),
        tools=toolchain,
        references=store / REFERENCES,
        checks=settings.verify.checks,
        instruction_limit=settings.verify.instruction_limit,
        time_limit_s=settings.verify.time_limit_s,
        reference_limit_s=settings.verify.reference_time_limit_s,
    )


async def _begin(file: CodeFile, options: argparse.Namespace, output: Output) -> int:
    """Print a description to begin with, or write it."""
    target = options.write_args or Path("args.toml")
    command = f"ckwatch verify {shlex.quote(str(file.path))} --args {shlex.quote(str(target))}"
    text = await to_thread.run_sync(starting_description, file, command)
    if options.write_args is not None:
        if await to_thread.run_sync(is_there, str(target)):
            raise CkwatchError(f"{target} is there already", "name another file, or verify by it with --args")
        await to_thread.run_sync(write_file, target, text.encode())
    output.answer(args=text, written="" if options.write_args is None else str(target))
    if options.write_args is not None:
        output.text(f'wrote {target}: replace each "?" in it, then run `{command}`')
        return 0
    if not output.json:
        sys.stdout.write(text)
    sys.stderr.write("ckwatch: not verified: --args names no description; the one above begins it\n")
    return 2
