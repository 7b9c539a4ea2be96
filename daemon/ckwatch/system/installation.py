"""How to add packages to this installation: the command that does it when it is pasted into a shell.

ckwatch is on no package index: `pip install` of its name would run what a stranger put there. So no command names it
without the place that it came from. Where that is not needed, the packages of an extra are named instead, which leaves
the rest of an environment as it is.

- A tool of uv: `uv tool install` with all that its receipt has and more, else an upgrade would drop what was added.
- pipx: `pipx inject`, which it remembers.
- Any other environment: its own pip, or uv where it has none.

An origin that is no longer there, or that holds a login, is not named; then uv adds the packages to the tool as it is.
"""

from __future__ import annotations

import re
import shlex
import shutil
import site
import sys
import sysconfig
import tomllib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.python_process import module_command
from ckwatch.system.user_files import read_file

DISTRIBUTION = "ckwatch"
RECEIPT, PIPX_METADATA = "uv-receipt.toml", "pipx_metadata.json"
PIPX_GLOBAL = Path("/opt/pipx")

_EXTRA = re.compile(r"""extra == ["']([\w.-]+)["']""")
_NAME = re.compile(r"[\w.-]+")
_ENTRY_KEYS = {"name", "extras", "specifier", "directory", "editable", "path", "url", "git"}
_RECEIPT_KEYS = {"requirements", "entrypoints", "python"}


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
    from importlib import metadata  # loads the parts of mail

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
    return _tool_command(here, (extra,), (), again=again) or _command(here, wanted, again=again)


def command_for_packages(*names: str, here: Installation | None = None) -> str:
    """The command that adds packages, in the versions that ckwatch takes."""
    here = here or this_installation()
    known = {_name_of(one): one.partition(";")[0].strip() for one in here.requires}
    wanted = [known.get(name, name) for name in names]
    return _tool_command(here, (), wanted, again=False) or _command(here, wanted, again=False)


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


def _tool_command(here: Installation, extras: Sequence[str], wanted: Sequence[str], *, again: bool) -> str | None:
    """The command that makes a tool of uv anew, with all that its receipt has; None where it is no such tool, and where
    the receipt has what no command could say."""
    try:
        receipt = tomllib.loads(read_file(here.prefix / RECEIPT).decode())["tool"]
        entries = sorted(receipt["requirements"], key=lambda entry: str(entry["name"]) != DISTRIBUTION)
        own, *others = entries
        if own["name"] != DISTRIBUTION or not _RECEIPT_KEYS.issuperset(receipt) or not _has_origin(own):
            return None
        words = ["uv", "tool", "install", "--force"]
        if again:
            words.append("--reinstall")
        if "python" in receipt:
            words += ["--python", receipt["python"]]
        given = _argument(own, extras)
        words += ["--editable", given] if "editable" in own else [given]
        for entry in others:
            words += ["--with-editable" if "editable" in entry else "--with", _argument(entry)]
        for one in wanted:
            words += ["--with", one]
        return shlex.join(words)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _has_origin(entry: Mapping[str, Any]) -> bool:
    return any(key in entry for key in ("directory", "editable", "path", "url", "git"))


def _argument(entry: Mapping[str, Any], more_extras: Sequence[str] = ()) -> str:
    """A requirement of a receipt as `uv tool install` takes it. Raises ValueError for one that cannot be named: its
    folder is gone, or a login would be shown."""
    if not _ENTRY_KEYS.issuperset(entry):
        raise ValueError("an entry with keys that are not known")
    extras = ",".join(sorted({*entry.get("extras", ()), *more_extras}))
    brackets = f"[{extras}]" if extras else ""
    for key in ("editable", "directory", "path"):
        if key in entry:
            path = Path(entry[key])
            if not path.exists():
                raise ValueError("its origin is gone")
            return f"{path}{brackets}" if key == "editable" else f"{entry['name']}{brackets} @ {path.as_uri()}"
    if "git" in entry:
        return f"{entry['name']}{brackets} @ {_git_address(entry['git'])}"
    if "url" in entry:
        if urlsplit(entry["url"]).query:
            raise ValueError("it may be a signature")
        return f"{entry['name']}{brackets} @ {_without_login(entry['url'])}"
    return f"{entry['name']}{brackets}{entry.get('specifier', '')}"


def _git_address(stored: str) -> str:
    """Of the address of a receipt, `https://host/repository?rev=v1&subdirectory=a`."""
    plain, _, query = stored.partition("?")
    options = {key: values[0] for key, values in parse_qs(query, strict_parsing=bool(query)).items()}
    folder = options.pop("subdirectory", None)
    if len(options) > 1 or not options.keys() <= {"rev", "tag", "branch"}:
        raise ValueError("an address with options that are not known")
    at = "".join(f"@{value}" for value in options.values())
    return f"git+{_without_login(plain)}{at}{f'#subdirectory={folder}' if folder else ''}"


def _without_login(url: str) -> str:
    """The same address. Raises ValueError for one that holds more than a user's name for ssh."""
    parts = urlsplit(url)
    if parts.password is not None or (parts.username is not None and parts.scheme != "ssh"):
        raise ValueError("an address with a login")
    return url
