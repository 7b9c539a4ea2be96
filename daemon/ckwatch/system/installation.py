"""How to add packages to this installation: the command that does it when it is pasted into a shell.

ckwatch is on no package index: `pip install` of its name would run what a stranger put there. So the packages of an
extra are named instead, which leaves the rest of an environment as it is: by pipx, which remembers them, or by the
environment's own pip, or by uv where it has none, as a tool of uv.
"""

from __future__ import annotations

import re
import shlex
import shutil
import site
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from ckwatch.system.python_process import module_command

DISTRIBUTION = "ckwatch"
RECEIPT, PIPX_METADATA = "uv-receipt.toml", "pipx_metadata.json"
PIPX_GLOBAL = Path("/opt/pipx")

_EXTRA = re.compile(r"""extra == ["']([\w.-]+)["']""")
_NAME = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True)
class Installation:
    """A Python environment that ckwatch is in. `requires`: its requirements, as its metadata have them. `pip_options`:
    those that pip needs to add a package."""

    prefix: Path
    python: str
    requires: tuple[str, ...]
    has_pip: bool = True
    has_uv: bool = False
    pip_options: tuple[str, ...] = ()


def this_installation() -> Installation:
    """The one that runs."""
    try:
        found = metadata.distribution(DISTRIBUTION)
        requires, folder = tuple(found.requires or ()), Path(str(found.locate_file("")))
    except metadata.PackageNotFoundError:  # a source tree on PYTHONPATH
        requires, folder = (), Path()
    options: list[str] = []
    if sys.prefix == sys.base_prefix:
        if folder == Path(site.getusersitepackages()):
            options.append("--user")
        if (Path(sysconfig.get_path("stdlib")) / "EXTERNALLY-MANAGED").exists():  # it was told so for ckwatch, too
            options.append("--break-system-packages")
    return Installation(
        prefix=Path(sys.prefix),
        python=module_command("pip")[0],
        requires=requires,
        has_pip=find_spec("pip") is not None,
        has_uv=shutil.which("uv") is not None,
        pip_options=tuple(options),
    )


def command_for_extra(extra: str, here: Installation | None = None, *, again: bool = False) -> str:
    """The command that adds an extra of ckwatch; `again`: also where its packages are there, which may be damaged."""
    here = here or this_installation()
    wanted = [one.partition(";")[0].strip() for one in here.requires if _EXTRA.findall(one) == [extra]]
    if not wanted:
        return f"add the extra `{extra}` where ckwatch was installed from (README.md, Install)"
    return _command(here, wanted, again=again)


def command_for_packages(*names: str, here: Installation | None = None) -> str:
    """The command that adds packages, in the versions that ckwatch takes."""
    here = here or this_installation()
    known = {_name_of(one): one.partition(";")[0].strip() for one in here.requires}
    wanted = [known.get(name, name) for name in names]
    return _command(here, wanted, again=False)


def _name_of(requirement: str) -> str:
    found = _NAME.match(requirement)
    return found[0] if found else ""


def _command(here: Installation, wanted: Sequence[str], *, again: bool) -> str:
    """By what adds packages to the environment as it is."""
    if (here.prefix / PIPX_METADATA).exists():
        options = [*(["--global"] if here.prefix.is_relative_to(PIPX_GLOBAL) else []), *(["--force"] if again else [])]
        return shlex.join(["pipx", "inject", *options, here.prefix.name, *wanted])
    if (here.prefix / RECEIPT).exists() or (here.has_uv and not here.has_pip):
        options = [one for one in here.pip_options if one != "--user"] + (["--reinstall"] if again else [])
        return shlex.join(["uv", "pip", "install", "--python", here.python, *options, *wanted])
    ensure = [] if here.has_pip else [shlex.join([here.python, "-m", "ensurepip"])]
    options = [*here.pip_options, *(["--force-reinstall"] if again else [])]
    return " && ".join([*ensure, shlex.join([here.python, "-m", "pip", "install", *options, *wanted])])
