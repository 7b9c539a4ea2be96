"""What every way to compile has in common: a private folder, an environment, and telling mistakes from faults."""

from __future__ import annotations

import errno
import hashlib
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ckwatch.compile.dependencies import missing_headers
from ckwatch.compile.processes import Finished, Launcher, OnLine, Verdict
from ckwatch.compile.request import CompileOutcome, CompileRequest, CompilerToolchain, Fault, Status
from ckwatch.devicetext import device_text
from ckwatch.diagnostics.clang_text import ClangMessage, MessageKind, parse_log, transient_kind
from ckwatch.fingerprint import token_key
from ckwatch.store import Command

HEADER_LIST = "headers.txt"
EXPORTS = "exports.map"
TEMPORARY = "temporary"

# These change what a compiler does and would have to be part of every key.
_UNWANTED_VARIABLES = (
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "OBJC_INCLUDE_PATH",
    "LIBRARY_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "CCC_OVERRIDE_OPTIONS",
    "CCC_ADD_ARGS",
    "CC_PRINT_OPTIONS",
    "CL",
    "_CL_",
    "DEPENDENCIES_OUTPUT",
    "SUNPRO_DEPENDENCIES",
    "HIPCC_COMPILE_FLAGS_APPEND",
    "HIPCC_LINK_FLAGS_APPEND",
    "HIPCC_VERBOSE",
)

_FAULTS: Mapping[MessageKind, tuple[Fault, str]] = {
    MessageKind.OUT_OF_MEMORY: (Fault.OUT_OF_MEMORY, "ran out of memory"),
    MessageKind.NO_SPACE: (Fault.NO_SPACE, "found no space left for its temporary files"),
    MessageKind.KILLED: (Fault.KILLED, "was killed (SIGKILL)"),
    MessageKind.CRASH: (Fault.CRASHED, "crashed"),
}
# hipcc repeats its whole command after clang's messages; the entry keeps the command anyway.
_ECHOED_COMMAND = "failed to execute:"
_CRASH_SIGNALS = frozenset(
    {signal.SIGSEGV, signal.SIGABRT, signal.SIGILL, signal.SIGBUS, signal.SIGFPE, signal.SIGTRAP}
)


@dataclass(slots=True)
class CompileJob:
    """The processes of one compile in its `folder`, whose spellings are `prefixes`; `rename` maps other paths to the
    names under which they are to be told."""

    request: CompileRequest
    toolchain: CompilerToolchain
    folder: Path
    launch: Launcher
    on_line: OnLine | None
    prefixes: tuple[str, ...]
    begun_ns: int = field(default_factory=time.time_ns)
    clock_s: float = field(default_factory=time.monotonic)
    commands: list[Command] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    rename: dict[str, str] = field(default_factory=dict)

    def own_names(self, text: str) -> str:
        """`text` with the files of this job called by their bare names."""
        for prefix in self.prefixes:
            text = text.replace(prefix, "")
        for path, name in self.rename.items():
            text = text.replace(path, name)
        return text

    def hand_on(self, line: str) -> None:
        """Give a line to whoever listens."""
        if self.on_line is not None and not line.startswith(_ECHOED_COMMAND):
            self.on_line(self.own_names(line))

    async def run(self, arguments: list[str]) -> Finished:
        """Run a compiler in the folder; what it prints goes to the log."""
        begun_s = time.monotonic() - self.clock_s
        finished = await self.launch(
            arguments,
            environment=environment_of(self.toolchain.environment, self.folder),
            folder=self.folder,
            timeout_s=self.request.timeout_s,
            nice=self.request.nice,
            on_line=None if self.on_line is None else self.hand_on,
        )
        self.commands.append(
            Command(
                tuple(self.own_names(argument) for argument in finished.arguments),
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

    def command_at(self, command: Command, offset_s: float) -> Command:
        """`command` as told by a clock that was started so much later."""
        begun_s = None if command.begun_s is None else command.begun_s + offset_s
        return replace(command, begun_s=begun_s)

    def outcome(self, status: Status, **more: Any) -> CompileOutcome:
        """What came of it, with all that was printed."""
        log = "".join(text if text.endswith("\n") else f"{text}\n" for text in self.log if text)
        return CompileOutcome(
            status, log, tuple(self.commands), self.begun_ns, missing=tuple(missing_headers(log)), **more
        )


def _prefixes(folder: Path) -> tuple[str, ...]:
    """The spellings of `folder` in what a compiler prints: with and without links, and as fix-its escape them."""
    plain = dict.fromkeys(f"{path}/" for path in (folder, folder.resolve()))
    escaped = (
        "".join(chr(byte) if byte < 128 else f"\\{byte:03o}" for byte in prefix.encode("utf-8", "surrogateescape"))
        for prefix in plain
    )
    return tuple(dict.fromkeys([*plain, *escaped]))


def source_id(request: CompileRequest) -> str:
    """What tells equal names of different device code apart in one program: an edit of host code does not change it."""
    seen = token_key(device_text(request.source))
    parts = [seen, *request.flags, "defines:", *request.defines, request.arch]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def prepare(request: CompileRequest, folder: Path) -> tuple[tuple[str, ...], OSError | None]:
    """Write what the compiler reads; the folder's spellings, and why it could not be written."""
    prefixes = _prefixes(folder)
    names = " ".join(f"{name};" for name in request.exports)
    try:
        (folder / request.language.source_name).write_bytes(request.source.encode("utf-8", "surrogateescape"))
        (folder / EXPORTS).write_text(f"{{ global: {names} local: *; }};\n")
        (folder / TEMPORARY).mkdir()
    except OSError as error:
        return prefixes, error
    return prefixes, None


def environment_of(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The whole environment of a compiler in `folder`."""
    kept = {name: value for name, value in environment.items() if name not in _UNWANTED_VARIABLES}
    return {
        **kept,
        "TMPDIR": str(folder / TEMPORARY),
        "CC_PRINT_HEADERS": "1",
        "CC_PRINT_HEADERS_FILE": str(folder / HEADER_LIST),
        "LC_ALL": "C.UTF-8",
        "SOURCE_DATE_EPOCH": "0",  # __DATE__ and __TIME__ would make two compiles of one source differ
    }


def unfinished(job: CompileJob, finished: Finished, headers: tuple[str, ...]) -> CompileOutcome:
    """Tell a mistake in the source from a fault of the host."""
    program = Path(finished.arguments[0]).name
    # A message that has a place speaks of the source, whatever words it uses.
    errors = [message for message in parse_log(finished.stderr) if message.is_error]
    unplaced = [message for message in errors if message.position is None]
    fault, message = fault_of(finished, program, unplaced)
    if fault is None and not errors:
        fault, message = Fault.HOST, f"{program} ended with status {finished.exit_status} and without a word"
        if finished.stderr.strip():
            message = f"{program} ended with status {finished.exit_status}: {finished.stderr.strip().splitlines()[-1]}"
    if fault is not None:
        return job.outcome(Status.TRANSIENT, fault=fault, message=message, headers=headers)
    return job.outcome(Status.FAILED, headers=headers)


def fault_of(finished: Finished, program: str, unplaced: list[ClangMessage]) -> tuple[Fault | None, str]:
    """The fault of the host that ended `program`, and what to say of it; `unplaced` are its errors without a place."""
    if finished.verdict is Verdict.TIMED_OUT:
        return Fault.TIMED_OUT, f"{program} was ended after {finished.duration_s:.0f} s"
    if finished.verdict is Verdict.OUT_OF_MEMORY:
        return Fault.OUT_OF_MEMORY, f"{program} ran out of memory"
    kind = transient_kind(unplaced)
    if kind is not None:
        fault, said = _FAULTS[kind]
        return fault, f"{program} {said}"
    # A shell reports a signal as 128 + its number.
    number = -finished.exit_status if finished.exit_status < 0 else finished.exit_status - 128
    if finished.exit_status < 0 or (number in _CRASH_SIGNALS | {signal.SIGKILL, signal.SIGTERM} and not unplaced):
        crashed = number in _CRASH_SIGNALS
        name = signal.Signals(number).name if number in signal.valid_signals() else f"signal {number}"
        return (
            (Fault.CRASHED, f"{program} crashed ({name})")
            if crashed
            else (Fault.KILLED, f"{program} was killed ({name})")
        )
    return None, ""


def unwritten(job: CompileJob, error: OSError) -> CompileOutcome:
    """The folder cannot be written."""
    fault = Fault.NO_SPACE if error.errno in (errno.ENOSPC, errno.EDQUOT) else Fault.HOST
    return job.outcome(Status.TRANSIENT, fault=fault, message=f"cannot write in {job.folder}: {error.strerror}")


def not_exported(names: list[str]) -> str:
    """What the linker would say if it knew what the source should export."""
    return "".join(
        f"ld: error: the source defines no exported function '{name}': "
        'declare it extern "C" PT_EXPORT, under the name KERNEL_NAME\n'
        for name in names
    )
