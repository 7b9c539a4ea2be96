"""The settings in `ckwatch.toml`: keys, types, defaults, and the descriptions that editors show."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from ckwatch.model.errors import CkwatchError
from ckwatch.model.names import why_no_name
from ckwatch.model.python_references import REFERENCE_LIMIT_S
from ckwatch.model.targets import ARCHS, DEVICE, HOST, NATIVE, unknown_arch
from ckwatch.model.toolchain_names import is_toolchain_name
from ckwatch.model.verification import INSTRUCTION_LIMIT
from ckwatch.system.user_files import is_file, is_folder
from ckwatch.workspace.problems import Problems, describe_value, unknown_value_error, validator_error
from ckwatch.workspace.toml_document import KeyPath

MIB = 1024**2
GIB = 1024**3
SIZE_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
SIZE_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")
_MACRO = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\([^()]*\))?")
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_FARM_ADDRESS = re.compile(r"(?P<protocol>tls|tcp)://(?P<host>[A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\]):(?P<port>\d{1,5})")
_WEB_ADDRESS = re.compile(r"https?://[^\s/?#]+\S*")
_DEVICE = re.compile(DEVICE)


def _checked(code: str, message: str, is_right: Callable[[Any], object]) -> AfterValidator:
    """The validator of values that `is_right` accepts; `{}` in `message` is the value."""

    def check(value: Any) -> Any:
        if not is_right(value):
            raise validator_error(code, message.format(value))
        return value

    return AfterValidator(check)


def known_arch(value: str) -> str:
    """An arch that can be compiled for."""
    why = unknown_arch(value)
    if why is None:
        return value
    if why[0].startswith("unknown arch"):
        raise unknown_value_error(
            "arch", why[1], [*ARCHS, NATIVE, HOST], " (with :xnack+ and the like where the arch has them)"
        )
    raise validator_error("unknown_arch", why[0])


def device_arch(value: str) -> str:
    """An arch of a GPU, or `native`."""
    if known_arch(value) == HOST:
        raise validator_error("unknown_arch", "`host` is the arch of *.cpp.j2 templates only, which need no `archs`")
    return value


def valid_name(value: str) -> str:
    """A name that can stand in a unit's id, `KERNEL/INSTANCE@ARCH`, and in a file's name."""
    reason = why_no_name(value)
    if reason is not None:
        raise validator_error("invalid_name", reason)
    return value


def name_at(problems: Problems, value: Any, place: KeyPath) -> str | None:
    """The name at `place`; None, and a report, for what is none."""
    if not isinstance(value, str):
        problems.wrong_type(place, "a string", value)
        return None
    reason = why_no_name(value)
    if reason is not None:
        problems.at_value(place, "invalid-name", reason)
    return value if reason is None else None


LARGEST_SIZE = 2**63


def size_bytes(value: Any) -> Any:
    """`1024` or `"20 GiB"` in bytes."""
    if not isinstance(value, str):
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise validator_error(
            "wrong_type", f'a size is an integer (bytes) or a string such as "20 GiB", not {describe_value(value)}'
        )
    found = _SIZE.fullmatch(value)
    unit = SIZE_UNITS.get((found[2] or "B").upper()) if found else None
    if found is None or unit is None:
        units = "B, KB, MB, GB, TB, KiB, MiB, GiB, TiB"
        raise validator_error(
            "invalid_size", f'`{value}` is not a size; write "20 GiB" or a number of bytes; units: {units}'
        )
    size = float(found[1]) * unit
    if not size < LARGEST_SIZE:
        raise validator_error("invalid_size", f"the size has {len(found[1])} digits; at most 8 EiB are possible")
    return math.floor(size)


def within_root(value: Any, info: ValidationInfo) -> Any:
    """A path as an absolute one: relative to the workspace's folder, `~` expanded."""
    if not isinstance(value, str):
        raise validator_error("wrong_type", f"a path is a string, not {describe_value(value)}")
    if not value or "\0" in value:
        raise validator_error("invalid_path", "a path is not empty")
    root = (info.context or {}).get("root", "/")
    # a name of no user stays as it is
    return Path(os.path.normpath(Path(root, os.path.expanduser(value))))  # noqa: PTH111


def name_or_folder(value: Any, info: ValidationInfo) -> Any:
    """A toolchain's name as it stands, else a path as an absolute one."""
    path = within_root(value, info)
    return Path(value) if is_toolchain_name(value) and not is_folder(path) else path


def macro_value(value: Any) -> Any:
    """Validate the value of a macro."""
    if not isinstance(value, (str, int)):
        raise validator_error(
            "wrong_type", f"a macro's value is a string, an integer, true or false, not {describe_value(value)}"
        )
    return value


def shared_store(value: Any, info: ValidationInfo) -> Any:
    """A folder as an absolute path, or an URL."""
    if isinstance(value, str) and "://" in value:
        return value
    return str(within_root(value, info))


def farm_address(value: str) -> str:
    """The address of a scheduler: `tls://HOST:PORT`, or `tcp://` on this machine alone."""
    found = _FARM_ADDRESS.fullmatch(value)
    if found is None or not 0 < int(found["port"]) < 1 << 16:
        raise validator_error("invalid_address", f"`{value}` is not the address of a scheduler; write tls://HOST:8786")
    if found["protocol"] == "tcp" and found["host"] not in LOOPBACK:
        raise validator_error(
            "unprotected_address",
            "anyone who can reach a scheduler can run programs on all of its workers: write tls://, with certificates "
            "of `ckwatch farm certificates`; tcp:// is for this machine alone (127.0.0.1)",
        )
    return value


AnyArch = Annotated[str, AfterValidator(known_arch)]
DeviceArch = Annotated[str, AfterValidator(device_arch)]
Name = Annotated[str, AfterValidator(valid_name)]
SizeBytes = Annotated[int, BeforeValidator(size_bytes), Field(gt=0)]
AnyPath = Annotated[Path, BeforeValidator(within_root)]
Folder = Annotated[AnyPath, _checked("missing_folder", "there is no folder {}", is_folder)]
NamedFolder = Annotated[
    Path,
    BeforeValidator(name_or_folder),
    _checked("missing_folder", "there is no folder {}", lambda path: not path.is_absolute() or is_folder(path)),
]
"""A folder, or a relative path that is the name of an installed toolchain."""
Program = Annotated[
    AnyPath,
    _checked("missing_program", "there is no program {}", lambda path: is_file(path) and os.access(path, os.X_OK)),
]
Pattern = Annotated[
    str,
    _checked(
        "invalid_pattern",
        "`{}` must be relative to ckwatch.toml and stay below its folder",
        lambda glob: glob and not glob.startswith(("/", "~")) and ".." not in glob.split("/"),
    ),
]
Macro = Annotated[str, _checked("invalid_macro", "`{}` is not the name of a preprocessor macro", _MACRO.fullmatch)]
MacroValue = Annotated[str | int | bool, BeforeValidator(macro_value)]
WebAddress = Annotated[
    str, _checked("invalid_address", "an address begins with https:// or http://", _WEB_ADDRESS.fullmatch)
]
Argument = Annotated[
    str, _checked("invalid_argument", "an argument is not empty", lambda value: value and "\0" not in value)
]
ToolchainName = Annotated[
    str,
    _checked(
        "invalid_argument",
        "a toolchain is a name or a folder, and not empty",
        lambda value: value.strip() and "\0" not in value,
    ),
]
HostName = Annotated[
    Argument, _checked("invalid_argument", "`{}` is not the name of a machine", re.compile(r"[^\s-]\S*").fullmatch)
]
Device = Annotated[
    str,
    _checked(
        "unknown_device",
        "`{}` is not a device; write auto, hip:0, cuda:0, cpu, or a PCI address; gpu-box/hip:0 for that of another "
        "machine",
        _DEVICE.fullmatch,
    ),
]
"""`auto`, by its number, or by its PCI address; of another machine behind `HOST/`."""
SharedStore = Annotated[str, BeforeValidator(shared_store)]
FarmAddress = Annotated[str, AfterValidator(farm_address)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Section(BaseModel):
    """A table whose unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class WorkspaceSection(Section):
    """`[workspace]`. `kernels` are looked for below the workspace's folder and `kernel_folders`."""

    templates: list[AnyPath] | None = Field(
        None,
        description="folders to search for templates, in this order; the built-in templates come last; "
        "by default `templates`",
    )
    kernels: list[Pattern] = Field(["**/*.kernel.toml"], description="which files are kernel files")
    kernel_folders: list[AnyPath] = Field(
        [], description="more folders to search for kernel files; links that lead elsewhere are not followed"
    )
    archs: Annotated[list[DeviceArch], Field(min_length=1)] = Field(
        ["gfx942"], description="what units are compiled for, unless a kernel file says so itself"
    )


class ToolchainSection(Section):
    """`[toolchain]`."""

    rocm: NamedFolder | None = Field(None, description='the ROCm tree, or the name of an installed one: "rocm-6.4"')
    ck: NamedFolder | None = Field(None, description='the folder that holds `ck/`, or "ck-1.1.0"')
    ck_tile: Folder | None = Field(None, description="the folder that holds `ck_tile/`")
    clangd: Program | None = Field(None, description="the program that answers questions about C++ in templates")
    also: list[ToolchainName] = Field(
        [], description="more toolchains that units are checked with in the background: names or folders"
    )
    also_build: bool = Field(
        False, description="compile units whole with those, instead of analyzing them without making code"
    )


class CompileSection(Section):
    """`[compile]`. `nice` is that of nice(1)."""

    flags: list[str] = Field([], description="added to the compiler's flags")
    defines: dict[
        Macro,
        Annotated[MacroValue, Field(description="what the macro stands for; `true`: it is defined without a value")],
    ] = Field({}, description="macros: a string, an integer, or `true` for one without a value")
    jobs: Annotated[int, Field(ge=1, le=4096)] | None = Field(
        None, description="compiler processes at one time; fewer run when memory is short"
    )
    nice: Annotated[int, Field(ge=0, le=19)] = Field(
        10,
        description="the nice value of compilers in the background: how far they make way for other programs; "
        "0: not at all",
    )
    timeout_s: Seconds = Field(600.0, description="processor time after which a compiler is stopped")
    stalled_s: Seconds = Field(600.0, description="after which a compiler is stopped that uses no processor")
    header_warnings: bool = Field(False, description="show warnings that lie in headers")
    precompile: bool = Field(True, description="make precompiled headers in the background, and use them")
    advice: bool = Field(
        True, description="find out in the background why kernels spill or have few waves, and which change helps"
    )


class RenderSection(Section):
    """`[render]`."""

    time_limit_s: Seconds = Field(10.0, description="after which a template is stopped")
    output_limit_bytes: SizeBytes = Field(16 * MIB, description="most that a template may print")


class StoreSection(Section):
    """`[store]`. `folder` None is the user's cache folder."""

    folder: AnyPath | None = Field(None, description="where artifacts are kept")
    size_limit_bytes: SizeBytes = Field(
        20 * GIB, description="above which the artifacts unused for longest are dropped"
    )
    shared: SharedStore | None = Field(
        None, description="a folder or an URL of fsspec (`s3://…`) with artifacts of others, read and added to"
    )


class BenchSection(Section):
    """`[bench]`. Without a `launcher` the `worker` is this Python."""

    device: Device = Field(
        "auto",
        description="`auto` takes the best that fits and all like it; `hip:N`, `cuda:N`, `cpu`, or a PCI address; "
        "`HOST/hip:N` of another machine",
    )
    when: Literal["saved", "request"] = Field(
        "saved", description='time by itself after builds, or on `"request"` only'
    )
    launcher: list[Argument] = Field(
        [],
        description="an argument list in front of the worker, run in the workspace's folder: "
        '`["ssh", "gpu-box"]`, `["srun", "--gres=gpu:1"]`',
    )
    worker: list[Argument] = Field(
        [], description='the worker\'s command; behind a launcher `["python3", "-P", "-m", "ckwatch.bench.worker"]`'
    )
    caches: Annotated[list[Literal["cold", "hot"]], Field(min_length=1)] = Field(
        ["cold", "hot"],
        description="what the caches hold when a launch begins: nothing of the operands, or what the last one left",
    )
    instruction_cache: Literal["warm", "flush"] = Field(
        "warm",
        description="what the instruction caches of a GPU hold when a launch begins: what the last one left, or, with "
        '`"flush"`, none of the kernel\'s code',
    )
    budget_s: Seconds = Field(3.0, description="longest measurement of one instance on one shape with one cache state")
    save_budget_s: Seconds = Field(120.0, description="device time that one save may take, on all devices together")
    time_limit_s: Seconds = Field(300.0, description="after which a worker is ended")
    lease_wait_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        600.0, description="how long to wait for a device that is in use"
    )
    relative_error: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.005, description="standard error of the median at which a measurement ends"
    )
    regression: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        0.03, description="how much slower than before, or than the baseline, is a warning"
    )
    threads: Annotated[int, Field(ge=1)] | None = Field(None, description="threads of host kernels")
    library: bool = Field(True, description="time the vendor's GEMM beside the kernel")
    shared: bool = Field(False, description="measure also beside other processes on the device")


class VerifySection(Section):
    """`[verify]`. `automatic` None is "looked-at" for archs of which this machine has no GPU, else "off"."""

    automatic: Literal["looked-at", "off"] | None = Field(
        None,
        description="verify edited and viewed units after each build without a request; by default where the "
        "machine has no AMD GPU of the arch",
    )
    checks: bool = Field(
        True, description="look for misuse of memory, races and missing waits too, not at results alone"
    )
    time_limit_s: Seconds = Field(
        120.0,
        description="time limit of an emulator process; another takes the remaining problems, three times at most",
    )
    instruction_limit: Annotated[int, Field(ge=1_000)] = Field(
        INSTRUCTION_LIMIT,
        description="instructions that a workgroup of up to four waves may execute before it counts as one without "
        "end; one that accesses memory counts 64, a matrix instruction 128",
    )
    reference_time_limit_s: Seconds = Field(
        REFERENCE_LIMIT_S, description="after which a call of a reference in Python is ended"
    )


class FarmSection(Section):
    """`[farm]`: either `scheduler` or `cluster`; with neither, everything runs on this machine."""

    scheduler: FarmAddress | None = Field(
        None, description="the address of a dask scheduler that runs already: `tls://HOST:8786`"
    )
    cluster: Literal["local", "ssh", "slurm", "pbs", "lsf", "sge", "oar", "htcondor", "moab"] | None = Field(
        None, description="what `ckwatch farm up` starts workers with, and a scheduler here"
    )
    workers: Annotated[int, Field(ge=1)] = Field(
        1, description="workers of a `cluster`: processes here, per host, or jobs; the least of an adaptive one"
    )
    most_workers: Annotated[int, Field(ge=1)] | None = Field(
        None, description="the most workers that a `cluster` grows to while there is work for them"
    )
    hosts: list[HostName] = Field([], validate_default=True, description='the machines of an `"ssh"` cluster')
    port: Annotated[int, Field(ge=0, le=65535)] = Field(
        8786, description="where the scheduler of a `cluster` listens; 0: any port"
    )
    options: dict[str, Any] = Field(
        {},
        description="handed to the class of the `cluster`: `queue`, `account`, `walltime`, `cores`, `memory`; "
        "`connect_options` of ssh",
    )
    give_toolchain: bool = Field(
        False,
        description="give machines that lack the toolchain the one that `ckwatch toolchain install` made here, once: "
        "some hundred megabytes",
    )
    certificates: AnyPath | None = Field(
        None, description="the folder that `ckwatch farm certificates` has filled; by default in the user's settings"
    )

    @field_validator("cluster")
    @classmethod
    def _is_the_only_farm(cls, cluster: str | None, info: ValidationInfo) -> str | None:
        if cluster is not None and info.data.get("scheduler") is not None:
            raise validator_error("two_farms", "`scheduler` and `cluster` are two farms: leave one of them out")
        return cluster

    @field_validator("most_workers")
    @classmethod
    def _may_grow(cls, most_workers: int | None, info: ValidationInfo) -> int | None:
        if most_workers is not None and info.data.get("cluster") == "ssh":
            raise validator_error(
                "few_workers", "an ssh cluster has the workers of its `hosts`: leave `most_workers` out"
            )
        workers = info.data.get("workers", 1)
        if most_workers is not None and most_workers < workers:
            raise validator_error("few_workers", f"`most_workers` = {most_workers} is less than `workers` = {workers}")
        return most_workers

    @field_validator("hosts")
    @classmethod
    def _go_with_ssh(cls, hosts: list[str], info: ValidationInfo) -> list[str]:
        if "cluster" in info.data and (info.data["cluster"] == "ssh") != bool(hosts):
            message = '`hosts` are the machines of `cluster = "ssh"`: one needs the other'
            raise validator_error("no_hosts", message, at="hosts" if hosts else "cluster")
        return hosts


class CppSection(Section):
    """`[cpp]`."""

    memory_limit_bytes: SizeBytes = Field(
        4 * GIB, description="above which the clangd that answers about C++ is ended and started again"
    )


class LimitsSection(Section):
    """`[limits]`."""

    instances: Annotated[int, Field(ge=1)] = Field(1000, description="most instances of one kernel file")
    combinations: Annotated[int, Field(ge=1)] = Field(
        100_000, description="most steps in looking for the combinations that meet a sweep's conditions"
    )


class DaemonSection(Section):
    """`[daemon]`."""

    idle_exit_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        3600.0, description="after so long without clients and work the daemon ends; 0 for never"
    )
    build: Literal["wanted", "edited", "everything"] = Field(
        "wanted",
        description="what is compiled without a request: what a client views, and what is edited meanwhile; what is "
        "edited at any time, too; or all",
    )
    settle_ms: Annotated[int, Field(ge=1, le=5000)] = Field(
        20,
        description="how long a file must be quiet before a change of it counts, unless the system tells that it was "
        "closed (Linux)",
    )
    webhook: WebAddress | None = Field(
        None,
        description="where a small JSON is posted when a unit fails, is wrong or becomes slower",
    )
    poll: bool = Field(False, description="scan files regularly, for file systems that send no events")
    watcher: Literal["inotify", "watchfiles"] = Field(
        "watchfiles",
        description="ignored, files are always watched with watchfiles; accepted because older `ckwatch.toml` files "
        "have it",
    )


class Settings(Section):
    """All of `ckwatch.toml`; paths are absolute."""

    workspace: WorkspaceSection = Field(
        default_factory=WorkspaceSection, description="where templates and kernel files are, and what to compile for"
    )
    toolchain: ToolchainSection = Field(
        default_factory=ToolchainSection, description="folders and programs that win over what discovery finds"
    )
    compile: CompileSection = Field(default_factory=CompileSection, description="how units are compiled")
    render: RenderSection = Field(default_factory=RenderSection, description="bounds of one render")
    store: StoreSection = Field(default_factory=StoreSection, description="where artifacts are kept")
    cpp: CppSection = Field(default_factory=CppSection, description="answers about C++ in editors, by clangd")
    limits: LimitsSection = Field(default_factory=LimitsSection, description="how much a kernel file may ask for")
    daemon: DaemonSection = Field(default_factory=DaemonSection, description="the background process")
    bench: BenchSection = Field(default_factory=BenchSection, description="how units are timed")
    farm: FarmSection = Field(
        default_factory=FarmSection, description="other machines that compile and time, through dask.distributed"
    )
    verify: VerifySection = Field(
        default_factory=VerifySection, description="how units are verified without a GPU, by an emulator"
    )


def parse_byte_size(text: str) -> int:
    """Bytes of a size as in `ckwatch.toml`, for the command line. Raises CkwatchError."""
    try:
        return int(size_bytes(text))
    except ValueError as error:
        raise CkwatchError(str(error)) from None
