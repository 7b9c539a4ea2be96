"""The processes of one compile and their log, and whether a failure is the source's mistake or a fault of the host."""

from __future__ import annotations

import errno
import hashlib
import signal
import time
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from ckwatch.checks.clang_output import ClangMessage, MessageKind, parse_clang_log, transient_kind
from ckwatch.compile.build_events import CompilerLine, OnBuildEvent, ProcessorUsed, ignore
from ckwatch.compile.dependencies import missing_headers
from ckwatch.compile.driver_plan import PassSide
from ckwatch.compile.request import CompileFault, CompileOutcome, CompileRequest, CompilerToolchain, CompileStatus
from ckwatch.compile.store.content_hashes import steady_ns
from ckwatch.compile.store.entries import CompilerCommand
from ckwatch.compile.work_folder import environment_of
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.render.tokens import DEVICE_MACRO, device_text, token_key
from ckwatch.system.async_processes import ExitReason, Launcher, ProcessResult
from ckwatch.system.processes import signal_name

_FAULTS: Mapping[MessageKind, tuple[CompileFault, str]] = {
    MessageKind.OUT_OF_MEMORY: (CompileFault.OUT_OF_MEMORY, "ran out of memory"),
    MessageKind.NO_SPACE: (CompileFault.NO_SPACE, "found no space left for its temporary files"),
    MessageKind.KILLED: (CompileFault.KILLED, "was killed (SIGKILL)"),
    MessageKind.CRASH: (CompileFault.CRASHED, "crashed"),
}
# hipcc repeats its whole command after clang's messages; the entry keeps the command anyway.
_ECHOED_COMMAND = "failed to execute:"
_CRASH_SIGNALS = frozenset(
    {signal.SIGSEGV, signal.SIGABRT, signal.SIGILL, signal.SIGBUS, signal.SIGFPE, signal.SIGTRAP}
)


@dataclass(slots=True)
class CompileJob:
    """The processes of one compile in its `folder`, whose spellings are `prefixes`; `rename` maps other paths to the
    names under which they are reported. `on_event` gets what they print and use, under the pass `side` if it is one."""

    request: CompileRequest
    toolchain: CompilerToolchain
    folder: Path
    launch: Launcher
    prefixes: tuple[str, ...]
    on_event: OnBuildEvent = ignore
    side: PassSide | None = None
    begun_ns: int = field(default_factory=steady_ns)
    clock_s: float = field(default_factory=time.monotonic)
    commands: list[CompilerCommand] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    rename: dict[str, str] = field(default_factory=dict)

    def own_names(self, text: str) -> str:
        """`text` with the files of this job called by their bare names."""
        for prefix in self.prefixes:
            text = text.replace(prefix, "")
        for path, name in self.rename.items():
            text = text.replace(path, name)
        return text

    def hand_on(self, line: str, *, early: bool = False) -> None:
        """Report a line that a compiler has written."""
        if not line.startswith(_ECHOED_COMMAND):
            self.on_event(CompilerLine(self.side, self.own_names(line), early))

    async def run(self, arguments: list[str], stage: str = "") -> ProcessResult:
        """Run a compiler in the folder; what it prints goes to the log. `stage` is what it does, if its name does not
        tell."""
        stage = stage or Path(arguments[0]).name
        reports = self.on_event is not ignore
        begun_s = time.monotonic() - self.clock_s
        finished = await self.launch(
            arguments,
            environment=environment_of(self.toolchain.environment, self.folder),
            folder=self.folder,
            timeout_s=self.request.timeout_s,
            stalled_s=self.request.stalled_s,
            nice=self.request.nice,
            on_line=self.hand_on if reports else None,
            on_used=(lambda seconds: self.on_event(ProcessorUsed(stage, seconds))) if reports else None,
        )
        self.commands.append(
            CompilerCommand(
                tuple(self.own_names("\0".join(finished.arguments)).split("\0")),
                finished.exit_status,
                finished.duration_s,
                finished.peak_memory_bytes,
                begun_s,
            )
        )
        for text in (finished.stderr, finished.stdout):
            lines = text.splitlines(keepends=True)
            self.log.append(self.own_names("".join(line for line in lines if not line.startswith(_ECHOED_COMMAND))))
        if finished.dropped_bytes:
            self.log.append(f"({finished.dropped_bytes} more bytes of output were dropped)\n")
        return finished

    def command_at(self, command: CompilerCommand, offset_s: float) -> CompilerCommand:
        """`command` as measured by a clock that was started so much later."""
        begun_s = None if command.begun_s is None else command.begun_s + offset_s
        return replace(command, begun_s=begun_s)

    def outcome(self, status: CompileStatus, **more: Any) -> CompileOutcome:
        """Make the outcome of a compile, with all that was printed."""
        log = "".join(text if text.endswith("\n") else f"{text}\n" for text in self.log if text)
        return CompileOutcome(
            status, log, tuple(self.commands), self.begun_ns, missing=tuple(missing_headers(log)), **more
        )


def seen_by_device(request: CompileRequest) -> str:
    """Return the source without what the device pass skips; all of it where a flag may change what that is."""
    doubted = any(DEVICE_MACRO in flag for flag in (*request.flags, *request.defines))
    return request.source if doubted else device_text(request.source)


def source_id(request: CompileRequest) -> str:
    """Return an id that tells equal names of different device code apart in one program: an edit of host code does not
    change it."""
    seen = token_key(seen_by_device(request))
    parts = [seen, *request.flags, "defines:", *request.defines, request.arch]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def unfinished(job: CompileJob, finished: ProcessResult, headers: tuple[str, ...]) -> CompileOutcome:
    """Tell a mistake in the source from a fault of the host."""
    program = Path(finished.arguments[0]).name
    # A message that has a place speaks of the source, whatever words it uses.
    errors = [message for message in parse_clang_log(finished.stderr) if message.is_error]
    unplaced = [message for message in errors if message.position is None]
    fault, message = fault_of(job.request, finished, program, unplaced)
    if fault is None and not errors:
        fault, message = CompileFault.HOST, f"{program} ended with status {finished.exit_status} and without a word"
        if finished.stderr.strip():
            message = f"{program} ended with status {finished.exit_status}: {finished.stderr.strip().splitlines()[-1]}"
    if fault is not None:
        return job.outcome(CompileStatus.TRANSIENT, fault=fault, message=message, headers=headers)
    return job.outcome(CompileStatus.FAILED, headers=headers)


def fault_of(
    request: CompileRequest, finished: ProcessResult, program: str, unplaced: list[ClangMessage]
) -> tuple[CompileFault | None, str]:
    """The fault of the host that ended `program`, and what to say of it; `unplaced` are its errors without a place."""
    if finished.exit_reason is ExitReason.TIMED_OUT:
        limit = f"`timeout_s = {request.timeout_s:g}` of [compile] in ckwatch.toml"
        return CompileFault.TIMED_OUT, f"{program} was ended after {request.timeout_s:g} s of processor time: {limit}"
    if finished.exit_reason is ExitReason.STALLED:
        limit = f"`stalled_s = {request.stalled_s:g}` of [compile] in ckwatch.toml"
        return CompileFault.TIMED_OUT, f"{program} used no processor for {request.stalled_s:g} s and was ended: {limit}"
    if finished.exit_reason is ExitReason.OUT_OF_MEMORY:
        return CompileFault.OUT_OF_MEMORY, f"{program} ran out of memory"
    kind = transient_kind(unplaced)
    if kind is not None:
        fault, reason = _FAULTS[kind]
        return fault, f"{program} {reason}"
    # A shell reports a signal as 128 + its number.
    number = -finished.exit_status if finished.exit_status < 0 else finished.exit_status - 128
    if finished.exit_status < 0 or (number in _CRASH_SIGNALS | {signal.SIGKILL, signal.SIGTERM} and not unplaced):
        crashed = number in _CRASH_SIGNALS
        name = signal_name(number)
        return (
            (CompileFault.CRASHED, f"{program} crashed ({name})")
            if crashed
            else (CompileFault.KILLED, f"{program} was killed ({name})")
        )
    return None, ""


def unwritten(job: CompileJob, error: OSError) -> CompileOutcome:
    """The folder cannot be written."""
    fault = CompileFault.NO_SPACE if error.errno in (errno.ENOSPC, errno.EDQUOT) else CompileFault.HOST
    return job.outcome(CompileStatus.TRANSIENT, fault=fault, message=f"cannot write in {job.folder}: {error.strerror}")


def not_exported(names: list[str]) -> str:
    """Return the message that the linker would print if it knew what the source should export."""
    return "".join(
        f"ld: error: the source defines no exported function '{name}': "
        'declare it extern "C" PT_EXPORT, under the name KERNEL_NAME\n'
        for name in names
    )
