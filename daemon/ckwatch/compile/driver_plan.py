"""The processes of which one hipcc call consists, so that they can be run apart: side by side, and with other inputs.

`hipcc -### …` prints them. What a compile of HIP source without relocatable device code consists of, and all that is
understood here:

    clang -cc1 -triple amdgcn…    device pass   kernel.hip → device object
    lld                           device link   → code object
    clang-offload-bundler         bundle        → fat binary
    clang -cc1 -triple x86_64…    host pass     kernel.hip + fat binary → object

Anything else (temporary files kept, link time optimization, another driver) is no plan, and one hipcc call does it all.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum

from ckwatch.model.lazy_dataclass import dataclass


class PassSide(StrEnum):
    """For which processor a pass compiles."""

    HOST = "host"
    DEVICE = "device"


class NoPlanError(ValueError):
    """The printed commands are not those of a plain HIP compile."""


@dataclass(frozen=True, slots=True)
class CompilePlan:
    """The commands of one hipcc call, as it would run them; files are put in by the methods.

    A plan holds for every source of the same flags, arch and compiler.
    """

    device: tuple[str, ...]
    device_link: tuple[str, ...]
    bundle: tuple[str, ...]
    host: tuple[str, ...]

    def command(self, side: PassSide) -> tuple[str, ...]:
        """The command of one pass as hipcc would run it."""
        return self.device if side is PassSide.DEVICE else self.host

    def pass_command(
        self,
        side: PassSide,
        *,
        source: str,
        output: str,
        headers: str,
        cuid: str,
        emit: str = "-emit-obj",
        more: Sequence[str] = (),
    ) -> list[str]:
        """Compile `source` for one side; the opened headers are listed in the file `headers`. `cuid` tells equal names
        of different sources apart. The host's object lacks the fat binary, to which it refers by a symbol."""
        command = list(self.command(side))
        _set_option(command, "-o", output)
        _set_option(command, "-main-file-name", source)
        _set_option(command, "-header-include-file", headers)
        command = [f"-cuid={cuid}" if part.startswith("-cuid=") else part for part in command]
        command[command.index("-emit-obj")] = emit
        command[-1] = source
        at = command.index("-x")
        return [*command[:at], *more, *command[at:]]

    def without_folders(self, folders: Collection[str]) -> CompilePlan:
        """The plan of a compile that does not look for headers in `folders`."""

        def rest(command: tuple[str, ...]) -> tuple[str, ...]:
            dropped = {
                index
                for at, part in enumerate(command[:-1])
                if part in _OWN_FOLDERS and command[at + 1] in folders
                for index in (at, at + 1)
            }
            return tuple(part for at, part in enumerate(command) if at not in dropped)

        return replace(self, device=rest(self.device), host=rest(self.host))

    def device_link_command(self, device_object: str, output: str, *more: str) -> list[str]:
        """Make a code object of the device pass's object."""
        command = [*self.device_link, *more]
        _set_option(command, "-o", output)
        return [device_object if part.endswith(".o") else part for part in command]

    def bundle_command(self, code_object: str, output: str) -> list[str]:
        """Make a fat binary of the code object."""
        command = []
        for part in self.bundle:
            if part.startswith("-output="):
                command.append(f"-output={output}")
            elif part.startswith("-input=") and part != "-input=/dev/null":
                command.append(f"-input={code_object}")
            else:
                command.append(part)
        return command


_OWN_FOLDERS = frozenset({"-iquote", "-idirafter"})


def read_plan(printed: str) -> CompilePlan:
    """The plan in what `hipcc -###` has printed. Raises NoPlanError when it is not of the one kind that is known."""
    commands = list(_commands(printed))
    if len(commands) != 4:
        raise NoPlanError(f"hipcc runs {len(commands)} programs where 4 were expected")
    device, link, bundle, host = commands
    for what, command, triple in (("device", device, "amdgcn-amd-amdhsa"), ("host", host, None)):
        if "-cc1" not in command[:2] or _option_value(command, "-triple") is None:
            raise NoPlanError(f"the {what} pass is not a call of clang")
        if triple is not None and _option_value(command, "-triple") != triple:
            raise NoPlanError(f"the {what} pass comes in another order")
        if any(
            _option_value(command, name) is None for name in ("-o", "-main-file-name", "-header-include-file", "-x")
        ):
            raise NoPlanError(f"the {what} pass names no output, source or list of headers")
        if "-emit-obj" not in command or _option_value(command, "-x") != "hip" or command[-2] != "hip":
            raise NoPlanError(f"the {what} pass makes something other than an object of HIP source")
        if any(part in _UNKNOWN or part.startswith("-split-dwarf") for part in command):
            raise NoPlanError(f"the {what} pass writes more files than an object")
    if "-flavor" not in link or sum(part.endswith(".o") for part in link) != 1:
        raise NoPlanError("the code object is linked by an unknown program")
    outputs = sum(part.startswith("-output=") for part in bundle)
    inputs = sum(part.startswith("-input=") for part in bundle)
    if (outputs, inputs) != (1, 2) or not any(part.startswith("-targets=host") for part in bundle):
        raise NoPlanError("the fat binary is made by an unknown program")
    if _option_value(host, "-fcuda-include-gpubinary") is None:
        raise NoPlanError("the host pass takes in no fat binary")
    return CompilePlan(
        tuple(_without_options(device, _DEPENDENCIES)),
        tuple(link),
        tuple(bundle),
        tuple(_without_options(host, {**_DEPENDENCIES, "-fcuda-include-gpubinary": 1})),
    )


_DEPENDENCIES = {"-dependency-file": 1, "-MT": 1, "-MP": 0}
"""Left out, with so many values: the list of headers tells the same."""

_UNKNOWN = frozenset(
    {"-fgpu-rdc", "-stats-file", "-serialize-diagnostic-file", "-fprofile-instrument=llvm", "-opt-record-file"}
)


def _commands(printed: str) -> Iterator[list[str]]:
    for line in printed.splitlines():
        if line.startswith(' "'):
            try:
                yield shlex.split(line)
            except ValueError as error:
                raise NoPlanError(f"hipcc printed a command that cannot be read: {error}") from error


def _option_value(command: Sequence[str], name: str) -> str | None:
    at = command.index(name) + 1 if name in command else len(command)
    return command[at] if at < len(command) else None


def _set_option(command: list[str], name: str, value: str) -> None:
    command[command.index(name) + 1] = value


def _without_options(command: Sequence[str], dropped: dict[str, int]) -> Iterator[str]:
    parts = iter(command)
    for part in parts:
        if part not in dropped:
            yield part
            continue
        for _ in range(dropped[part]):
            next(parts, None)
