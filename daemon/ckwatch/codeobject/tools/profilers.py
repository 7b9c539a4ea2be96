"""The vendors' profilers, rocprofv3 for AMD's GPUs and ncu (Nsight Compute) for NVIDIA's: their calls and files.

What they do around a program is an argument list; no shell takes part. Of rocprofv3 the options are those of "Using PC
sampling" in rocprofiler-sdk's documentation; it was never run by this project, which has no AMD GPU. ncu was run in
version 2025.3 on an H200.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from glob import glob
from pathlib import Path

from anyio import to_thread

from ckwatch.codeobject.device_profiles import read_profile
from ckwatch.codeobject.ncu_pages import read_launches
from ckwatch.codeobject.tools import rocpd
from ckwatch.model.device_profiles import DeviceProfile, NoProfileError
from ckwatch.model.errors import CkwatchError
from ckwatch.system.async_processes import ProcessResult, run_process
from ckwatch.system.user_files import read_file

LIMIT_BYTES = 1 << 30
"""Of a profile's file."""

KNOWN_FILES = (
    "rocprofv3's PC sampling and counters as CSV or JSON are, its rocpd database, `code.json` of a thread trace's "
    "`ui_output` folder, and ncu's report or source page as CSV"
)
_PAGE_TIMEOUT_S = 600.0
_REPORT_SUFFIX = ".ncu-rep"

_USUAL: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "rocprofv3": (("ROCM_PATH",), ("/opt/rocm*/bin",)),
    "ncu": (("CUDA_HOME", "CUDA_PATH"), ("/usr/local/cuda*/bin", "/opt/nvidia/nsight-compute/*")),
}
"""Variables that name a folder with `bin`, and patterns of folders."""
_PACKAGES = {
    "rocprofv3": "it is in ROCm's package `rocprofiler-sdk` (6.4 or later)",
    "ncu": "it is in NVIDIA's package `cuda-nsight-compute-13-0` (or of another version), a part of the CUDA toolkit",
}

_STOCHASTIC_ARCHS = ("gfx942", "gfx950")
_STOCHASTIC = ("stochastic", "cycles", "65536")
"""Method, unit and interval: a power of two of cycles."""
_HOST_TRAP = ("host_trap", "time", "100")
"""In microseconds."""

_REFUSED = re.compile(
    r"^.*PC.sampling.*(?:not supported|unavailable|not available|fail).*$", re.MULTILINE | re.IGNORECASE
)
_LOG_HEAD = re.compile(r"^[EWF]\d{8} .*?\] ")
_COUNTERS_FORBIDDEN = "ERR_NVGPUCTRPERM"


def find_profiler(name: str, environment: Mapping[str, str]) -> Path:
    """The program `rocprofv3` or `ncu`, from PATH or where its vendor installs it. Raises CkwatchError."""
    found = shutil.which(name, path=environment.get("PATH", os.defpath))
    for candidate in [Path(found)] if found else _usual_places(name, environment):
        if os.access(candidate, os.X_OK) and candidate.is_file():
            return candidate.absolute()
    raise CkwatchError(f"{name} is not installed here, neither on PATH nor in its usual place", _PACKAGES[name])


def _usual_places(name: str, environment: Mapping[str, str]) -> Iterable[Path]:
    variables, patterns = _USUAL[name]
    own = [Path(environment[variable], "bin") for variable in variables if environment.get(variable)]
    found = [Path(folder) for pattern in patterns for folder in sorted(glob(pattern), reverse=True)]  # noqa: PTH207
    return [folder / name for folder in (*own, *found)]


def ncu_command(ncu: Path, report: Path, log: Path, sources: Path, program: Sequence[str]) -> tuple[str, ...]:
    """The call that profiles all launches of `program` to `report`. `sources` is the folder of the compiled text.

    The clocks are left as they are, as when a kernel is timed.
    """
    return (
        *(str(ncu), "--section", "SourceCounters", "--clock-control", "none"),
        *("--import-source", "yes", "--source-folders", str(sources)),
        *("--log-file", str(log), "--force-overwrite", "--export", str(report)),
        *program,
    )


def ncu_page_command(ncu: Path, report: Path, view: str) -> tuple[str, ...]:
    """The call that prints the source page of a report; `view`: `cuda,sass`, or `sass` for a report without lines."""
    return (str(ncu), "--import", str(report), "--csv", "--page", "source", "--print-source", view)


def ncu_launches_command(ncu: Path, report: Path) -> tuple[str, ...]:
    """The call that prints the launches of a report."""
    return (str(ncu), "--import", str(report), "--csv", "--page", "raw")


def rocprofv3_command(rocprofv3: Path, folder: Path, arch: str, program: Sequence[str]) -> tuple[str, ...]:
    """The call that takes PC samples of `program` and leaves them in `folder` as JSON: stochastic ones, which say what
    waves wait for, where the arch has them, else those of a host trap."""
    method, unit, interval = _STOCHASTIC if arch.partition(":")[0] in _STOCHASTIC_ARCHS else _HOST_TRAP
    return (
        *(str(rocprofv3), "--pc-sampling-beta-enabled", "--pc-sampling-method", method),
        *("--pc-sampling-unit", unit, "--pc-sampling-interval", interval),
        *("--kernel-trace", "--output-format", "json", "--output-directory", str(folder), "--output-file", "profile"),
        *("--", *program),
    )


def rocprofv3_problem(printed: str) -> CkwatchError | None:
    """Why it took no samples, if it says so."""
    found = _REFUSED.search(printed)
    if found is None:
        return None
    return CkwatchError(
        f"the driver or the GPU refuses PC sampling: {_LOG_HEAD.sub('', found[0].strip())}",
        "`rocprofv3-avail info --pc-sampling` lists what it can do here; it needs ROCm 6.4 or later with its driver, "
        "and a GPU of gfx90a, gfx942, gfx950 or gfx12",
    )


def ncu_problem(printed: str) -> CkwatchError | None:
    """Why it took no profile, if it says so."""
    if _COUNTERS_FORBIDDEN in printed:
        return CkwatchError(
            "the driver lets administrators alone read the GPU's counters (ERR_NVGPUCTRPERM)",
            "run it as root, or load the module `nvidia` with NVreg_RestrictProfilingToAdminUsers=0",
        )
    errors = [line.removeprefix("==ERROR== ") for line in printed.splitlines() if line.startswith("==ERROR==")]
    if errors:
        return CkwatchError(f"ncu failed: {errors[0]}", "; ".join(errors[1:3]) or None)
    if "No kernels were profiled" in printed:
        return CkwatchError("ncu saw no kernel: the program launched none")
    return None


async def read_profile_file(path: Path, environment: Mapping[str, str]) -> DeviceProfile:
    """The profile in a file; ncu's own reports are read by ncu. Raises CkwatchError."""
    if path.suffix == _REPORT_SUFFIX:
        return await read_report(await to_thread.run_sync(find_profiler, "ncu", environment), path, environment)
    return await to_thread.run_sync(_read, path)


def _read(path: Path) -> DeviceProfile:
    try:
        content = read_file(path, LIMIT_BYTES)
        return rocpd.read_database(content) if content.startswith(rocpd.HEAD) else read_profile(content)
    except OSError as error:
        raise CkwatchError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    except NoProfileError as error:
        raise CkwatchError(f"{path} is not a profile: {error}", KNOWN_FILES) from None


async def read_report(ncu: Path, report: Path, environment: Mapping[str, str]) -> DeviceProfile:
    """The profile in a report of ncu, with source lines if it has any. Raises CkwatchError."""
    for view in ("cuda,sass", "sass"):
        printed = await _printed(ncu_page_command(ncu, report, view), environment)
        try:
            profile = await to_thread.run_sync(read_profile, printed.encode())
            raw = await _printed(ncu_launches_command(ncu, report), environment)
            return replace(profile, kernels=await to_thread.run_sync(read_launches, raw))
        except NoProfileError as error:
            problem = error
    raise CkwatchError(f"{report} has no source page: {problem}", "ncu takes it with `--section SourceCounters`")


async def _printed(command: Sequence[str], environment: Mapping[str, str]) -> str:
    done: ProcessResult = await run_process(
        command,
        environment=environment,
        timeout_s=_PAGE_TIMEOUT_S,
        output_limit_bytes=LIMIT_BYTES,
    )
    problem = None if done.succeeded else ncu_problem(done.stdout + done.stderr)
    if problem is not None:
        raise problem
    return done.stdout
