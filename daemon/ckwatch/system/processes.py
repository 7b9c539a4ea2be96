"""Starts, signals and reaps processes; nothing else in ckwatch does.

Each process leads a session of its own, so that whatever it has started can be ended with it: a kill of the direct
child alone leaves the children of hipcc, apt and launchers behind. How a process ends is seen through a pidfd, which
leaves its exit status and resource usage to one `wait4`.

Nothing here is asynchronous: commands that start fast use it as it is, the others through `async_processes`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.time_limits import GroupUsage

DEVNULL, PIPE = subprocess.DEVNULL, subprocess.PIPE


class ProcessStartError(CkwatchError):
    """`reason` says why `program` cannot be started."""

    def __init__(self, program: str, reason: str) -> None:
        super().__init__(f"cannot start {program}: {reason}")
        self.program = program
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """How a process ended: its exit status, negative for a signal, and the largest resident set of any process that it
    waited for. `oom_killed`: the kernel has killed something for want of memory since it was started."""

    status: int
    peak_memory_bytes: int
    oom_killed: bool


class Process:
    """A process that was started here, with its pidfd and the pipes that were asked for."""

    def __init__(self, popen: subprocess.Popen[bytes], oom_kills_before: int) -> None:
        self._popen = popen
        self._oom_kills_before = oom_kills_before
        self._end: ProcessEnd | None = None
        self.pid = popen.pid
        self.stdin: IO[bytes] | None = popen.stdin
        self.stdout: IO[bytes] | None = popen.stdout
        self.stderr: IO[bytes] | None = popen.stderr
        self.pidfd = os.pidfd_open(popen.pid)

    def signal_group(self, number: signal.Signals) -> None:
        """Signal the process and all that it has started; what has ended is no error."""
        signal_group(self.pid, number)

    def wait(self) -> ProcessEnd:
        """Wait for the end of the process, and reap it."""
        end = self._reap(0)
        assert end is not None  # noqa: S101  # it has been waited for
        return end

    def poll(self) -> ProcessEnd | None:
        """How the process ended, which reaps it; None while it runs."""
        return self._reap(os.WNOHANG)

    def close(self) -> None:
        """Close all descriptors; the process goes on."""
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()
        os.close(self.pidfd)

    def _reap(self, options: int) -> ProcessEnd | None:
        if self._end is None:
            found, status, usage = os.wait4(self.pid, options)
            if found == 0:
                return None
            self._popen.returncode = os.waitstatus_to_exitcode(status)
            killed = _oom_kills() > self._oom_kills_before
            self._end = ProcessEnd(self._popen.returncode, usage.ru_maxrss * 1024, killed)
        return self._end


def start(
    arguments: Sequence[str | os.PathLike[str]],
    *,
    environment: Mapping[str, str],
    folder: Path | None = None,
    stdin: int | IO[bytes] = DEVNULL,
    stdout: int | IO[bytes] = PIPE,
    stderr: int | IO[bytes] | None = PIPE,
    pass_fds: Sequence[int] = (),
) -> Process:
    """Start `arguments` in `folder` (default: this process's) with exactly `environment`, as the leader of a session.

    `stderr=None` is this process's own. Raises ProcessStartError.
    """
    kills = _oom_kills()
    popen = _popen(
        *(arguments, environment, folder),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=pass_fds,
    )
    try:
        return Process(popen, kills)
    except BaseException:
        signal_group(popen.pid, signal.SIGKILL)
        popen.communicate()
        raise


def run_blocking(
    arguments: Sequence[str | os.PathLike[str]], *, environment: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run `arguments` without input to the end, for threads and short questions; its output, as text. Raises
    ProcessStartError, and TimeoutError when it takes longer than `timeout_s`, which ends its whole group."""
    with _popen(arguments, environment, None, stdin=DEVNULL, stdout=PIPE, stderr=PIPE) as popen:
        try:
            stdout, stderr = popen.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError from error
        finally:
            if popen.returncode is None:
                signal_group(popen.pid, signal.SIGKILL)
    texts = (text.decode(errors="replace") for text in (stdout, stderr))
    return subprocess.CompletedProcess([os.fspath(argument) for argument in arguments], popen.returncode, *texts)


def _popen(
    arguments: Sequence[str | os.PathLike[str]], environment: Mapping[str, str], folder: Path | None, **files: Any
) -> subprocess.Popen[bytes]:
    words = [os.fspath(argument) for argument in arguments]
    try:
        return subprocess.Popen(words, bufsize=0, cwd=folder, env=dict(environment), start_new_session=True, **files)
    except (OSError, ValueError) as error:  # a NUL byte is a ValueError
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ProcessStartError(words[0], reason) from error


class ProcessHandle:
    """A process that was started elsewhere, by a descriptor, which never comes to mean another process as a number
    does; it becomes readable when the process ends. Raises ProcessLookupError when the process has ended already."""

    def __init__(self, pid: int) -> None:
        self._pidfd = os.pidfd_open(pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._pidfd)

    def fileno(self) -> int:
        return self._pidfd

    def signal(self, number: signal.Signals) -> None:
        """Signal the process; one that has ended is no error."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)


def is_running(pid: int) -> bool:
    """Return True if there is a process with this number, of any user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def own_age_s() -> float:
    """Seconds since this process was started, to a hundredth."""
    ticks = int(Path("/proc/self/stat").read_text(errors="replace").rpartition(")")[2].split()[19])
    return max(time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"), 0.0)


def process_state(pid: int) -> str:
    """Return the letter of its state (proc_pid_stat(5)); empty when it has gone."""
    with suppress(OSError, IndexError):
        return Path("/proc", str(pid), "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    return ""


def is_stopped(pid: int) -> bool:
    """Return True if a signal (SIGSTOP, Ctrl-Z) has suspended the process."""
    return process_state(pid) == "T"


def signal_group(group: int, number: signal.Signals) -> None:
    """Signal every process of the session that was started by its leader `group`; what has ended is no error."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def group_runs(group: int) -> bool:
    """Return True if a process of `group` still runs. Zombies do not count: their parent may never ask for them."""
    return has_group(group) and any(fields[0] not in "ZX" for fields in _members(group))


def group_usage(group: int) -> GroupUsage:
    """Return the processor time that the processes of `group` have used."""
    ticks, ready = 0, False
    for fields in _members(group):
        # utime, stime, cutime, cstime (proc_pid_stat(5)): its own, and that of children that it has waited for
        ticks += sum(map(int, fields[11:15]))
        ready = ready or fields[0] == "R"
    return GroupUsage(ticks / os.sysconf("SC_CLK_TCK"), ready)


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process; 0 for one that has ended."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc", str(pid), "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _members(group: int) -> Iterator[list[str]]:
    """The fields of /proc/PID/stat, from the state on, of each process of `group`, zombies included."""
    for name in os.listdir("/proc"):  # noqa: PTH208  # names are all that is wanted
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                # "PID (NAME) STATE PARENT GROUP …"; the name may hold blanks and parentheses.
                fields = Path("/proc", name, "stat").read_text(errors="replace").rpartition(")")[2].split()
                if int(fields[2]) == group:
                    yield fields


def niceness() -> int:
    """This process's, which all that it starts inherits."""
    return os.getpriority(os.PRIO_PROCESS, 0)


def drop_niceness() -> None:
    """Run as if this process had not been started by a niced one, where the system allows that."""
    if niceness() > 0:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, 0)


def has_group(group: int) -> bool:
    """Return True if there is a process of `group`, or a zombie; much faster than `group_runs`."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def kill_processes_in(folder: Path) -> None:
    """Kill every process that works in a folder below `folder`."""
    inside = f"{os.path.realpath(folder)}{os.sep}"
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            working_folder = os.readlink(entry / "cwd")  # noqa: PTH115  # as it is, resolved or deleted
        except OSError:
            continue  # it has ended, or belongs to another user
        if working_folder.startswith(inside):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(int(entry.name), signal.SIGKILL)


def signal_of(status: int) -> signal.Signals | None:
    """The signal that a process ended by; shells and launchers report that of what they ran as 128 + its number."""
    if 0 <= status <= 128:
        return None
    with suppress(ValueError):
        return signal.Signals(-status if status < 0 else status - 128)
    return None


def signal_name(number: int) -> str:
    """`SIGKILL`, and `signal 50` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _oom_kills() -> int:
    """How many processes the kernel has killed for want of memory since it started; 0 where it does not say."""
    with suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
