"""The settings in `ckwatch.toml`: keys, types and defaults. `docs/workspace.md` describes each."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from ckwatch.model.errors import CkwatchError
from ckwatch.model.targets import ARCHS, HOST, NATIVE, unknown_arch
from ckwatch.workspace.problems import describe_value, unknown_value_error, validator_error

MIB = 1024**2
GIB = 1024**3
SIZE_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
SIZE_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")
_MACRO = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\([^()]*\))?")
_NAME = re.compile(r"[^/@\x00-\x1f\x7f]+")
_DEVICE = re.compile(r"auto|cpu|(hip|cuda):\d{1,3}|[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
NAME_LENGTH_LIMIT = 120


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
        raise validator_error(
            "unknown_arch", "`host` is the arch of *.cpp.j2 templates only, which have it without being told"
        )
    return value


def valid_name(value: str) -> str:
    """A name that can stand in a unit's id, `KERNEL/INSTANCE@ARCH`, and in a file's name."""
    if not _NAME.fullmatch(value) or value != value.strip() or value in (".", ".."):
        raise validator_error(
            "invalid_name", f"`{value}` is no name: a name is not empty and has no / @ or control characters"
        )
    if len(value) > NAME_LENGTH_LIMIT:
        raise validator_error(
            "invalid_name", f"the name has {len(value)} characters; at most {NAME_LENGTH_LIMIT} are allowed"
        )
    return value


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
            "invalid_size", f'`{value}` is no size; write "20 GiB" or a number of bytes; units: {units}'
        )
    return math.floor(float(found[1]) * unit)


def within_root(value: Any, info: ValidationInfo) -> Any:
    """A path as an absolute one: relative to the workspace's folder, `~` expanded."""
    if not isinstance(value, str):
        raise validator_error("wrong_type", f"a path is a string, not {describe_value(value)}")
    if not value or "\0" in value:
        raise validator_error("invalid_path", "a path is not empty")
    root = (info.context or {}).get("root", "/")
    # a name of no user stays as it is
    return Path(os.path.normpath(Path(root, os.path.expanduser(value))))  # noqa: PTH111


def existing_folder(value: Path) -> Path:
    """A folder that is there."""
    if not os.path.isdir(value):  # noqa: PTH112  # Path.is_dir raises where a name is too long
        raise validator_error("missing_folder", f"there is no folder {value}")
    return value


def relative_pattern(value: str) -> str:
    """A glob pattern that stays inside the workspace."""
    if not value or value.startswith(("/", "~")) or ".." in value.split("/"):
        raise validator_error(
            "invalid_pattern", f"`{value}` must be relative to ckwatch.toml and stay below its folder"
        )
    return value


def macro_value(value: Any) -> Any:
    """What a macro may stand for."""
    if not isinstance(value, (str, int)):
        raise validator_error(
            "wrong_type", f"a macro's value is a string, an integer, true or false, not {describe_value(value)}"
        )
    return value


def macro_name(value: str) -> str:
    """The name of a preprocessor macro."""
    if not _MACRO.fullmatch(value):
        raise validator_error("invalid_macro", f"`{value}` is no name of a preprocessor macro")
    return value


def device_name(value: str) -> str:
    """A device: `auto`, by its number, or by its PCI address."""
    if not _DEVICE.fullmatch(value):
        raise validator_error(
            "unknown_device", f"`{value}` is no device; write auto, hip:0, cuda:0, cpu, or a PCI address"
        )
    return value


def program_argument(value: str) -> str:
    """An argument of a process."""
    if not value or "\0" in value:
        raise validator_error("invalid_argument", "an argument is not empty")
    return value


AnyArch = Annotated[str, AfterValidator(known_arch)]
DeviceArch = Annotated[str, AfterValidator(device_arch)]
Name = Annotated[str, AfterValidator(valid_name)]
SizeBytes = Annotated[int, BeforeValidator(size_bytes), Field(gt=0)]
AnyPath = Annotated[Path, BeforeValidator(within_root)]
Folder = Annotated[AnyPath, AfterValidator(existing_folder)]
Pattern = Annotated[str, AfterValidator(relative_pattern)]
Macro = Annotated[str, AfterValidator(macro_name)]
MacroValue = Annotated[str | int | bool, BeforeValidator(macro_value)]
Argument = Annotated[str, AfterValidator(program_argument)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Section(BaseModel):
    """A table of `ckwatch.toml`; unknown keys are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class WorkspaceSection(Section):
    """`[workspace]`: where templates and kernel files are, and what to compile for.

    `kernels` are looked for below the workspace's folder and `kernel_folders`; links that lead out of these are not
    followed.
    """

    templates: list[AnyPath] | None = None
    kernels: list[Pattern] = ["**/*.kernel.toml"]
    kernel_folders: list[AnyPath] = []
    archs: Annotated[list[DeviceArch], Field(min_length=1)] = ["gfx942"]


class ToolchainSection(Section):
    """`[toolchain]`: folders that win over what discovery finds."""

    rocm: Folder | None = None
    ck: Folder | None = None
    ck_tile: Folder | None = None


class CompileSection(Section):
    """`[compile]`: how units are compiled. `defines` maps macros to values; `true` defines without a value.

    `precompile`: whether precompiled headers are made and used. `nice`: how far compilers stand back for other programs
    (nice(1)).
    """

    flags: list[str] = []
    defines: dict[Macro, MacroValue] = {}
    jobs: Annotated[int, Field(ge=1)] | None = None
    nice: Annotated[int, Field(ge=0, le=19)] = 10
    timeout_s: Seconds = 600.0
    header_warnings: bool = False
    precompile: bool = True


class RenderSection(Section):
    """`[render]`: bounds of one render."""

    time_limit_s: Seconds = 10.0
    output_limit_bytes: SizeBytes = 16 * MIB


class StoreSection(Section):
    """`[store]`: where artifacts are kept. `folder` None is the user's cache folder."""

    folder: AnyPath | None = None
    size_limit_bytes: SizeBytes = 20 * GIB


class BenchSection(Section):
    """`[bench]`: how units are timed.

    `device`: `auto` (the best that is there), `hip:N`, `cuda:N`, `cpu`, or a PCI address. `when`: after every build of
    what was edited or is looked at, or on request only. `launcher` is put in front of the `worker` command, an argument
    list (`["ssh", "gpu-box"]`); without one the worker is this Python. `budget_s` bounds the measuring of one instance
    on one shape and cache state, `save_budget_s` what one save may cost together, `time_limit_s` a worker.
    `relative_error`: of the median, at which a measurement ends. `regression`: how much slower is a warning.
    `library`: compare with the vendor's. `shared`: also measure beside other processes on the device.
    """

    device: Annotated[str, AfterValidator(device_name)] = "auto"
    when: Literal["saved", "request"] = "saved"
    launcher: list[Argument] = []
    worker: list[Argument] = []
    caches: Annotated[list[Literal["cold", "hot"]], Field(min_length=1)] = ["cold", "hot"]
    budget_s: Seconds = 3.0
    save_budget_s: Seconds = 120.0
    time_limit_s: Seconds = 300.0
    lease_wait_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 600.0
    relative_error: Annotated[float, Field(gt=0, lt=1)] = 0.005
    regression: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.03
    threads: Annotated[int, Field(ge=1)] | None = None
    library: bool = True
    shared: bool = False


class LimitsSection(Section):
    """`[limits]`: how much a kernel file may ask for."""

    instances: Annotated[int, Field(ge=1)] = 1000
    combinations: Annotated[int, Field(ge=1)] = 100_000


class DaemonSection(Section):
    """`[daemon]`: the background process. `idle_exit_s`: after so long without clients and work it ends; 0 for never.

    `build`: what it compiles without being asked: `wanted` (what was edited, is looked at or asked for) or
    `everything`. `settle_ms`: how long a file must be quiet before a change of it counts. `poll`: look at files
    again and again, for file systems that send no events. `watcher`: what tells of changes, Linux's `inotify` or the
    `watchfiles` library, which is slower and is used on other systems in any case.
    """

    idle_exit_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 3600.0
    build: Literal["wanted", "everything"] = "wanted"
    settle_ms: Annotated[int, Field(ge=1, le=5000)] = 20
    poll: bool = False
    watcher: Literal["inotify", "watchfiles"] = "inotify"


class Settings(Section):
    """All of `ckwatch.toml`; paths are absolute."""

    workspace: WorkspaceSection = Field(default_factory=WorkspaceSection)
    toolchain: ToolchainSection = Field(default_factory=ToolchainSection)
    compile: CompileSection = Field(default_factory=CompileSection)
    render: RenderSection = Field(default_factory=RenderSection)
    store: StoreSection = Field(default_factory=StoreSection)
    limits: LimitsSection = Field(default_factory=LimitsSection)
    daemon: DaemonSection = Field(default_factory=DaemonSection)
    bench: BenchSection = Field(default_factory=BenchSection)


def parse_byte_size(text: str) -> int:
    """Bytes of a size as in `ckwatch.toml`, for the command line. Raises CkwatchError."""
    try:
        return int(size_bytes(text))
    except ValueError as error:
        raise CkwatchError(str(error)) from None
