"""How git is called: as an argument list, without what a repository's settings could run, and without locks."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import anyio

from ckwatch.model.errors import CkwatchError
from ckwatch.system.async_processes import Launcher, run_process

GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")


def git_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a call. Variables of a hook that runs ckwatch, such as GIT_DIR, do not count."""
    own = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
    return own | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}


_REMOTE = re.compile(
    r"(?:https?://|ssh://|git://)(?:[^/@]*@)?(?P<host>[\w.-]+)(?P<port>:\d+)?/(?P<path>[^?#\s]+)"
    r"|(?:[^/@:]*@)?(?P<short_host>[\w-]+(?:\.[\w-]+)+):(?P<short_path>[^/?#\s][^?#\s]*)"
)


def web_address(remote: str) -> str:
    """The address of a remote's pages, without a name or a password; empty for one that has none, such as a folder."""
    found = _REMOTE.fullmatch(remote.strip())
    if found is None:
        return ""
    host, path = found["host"] or found["short_host"], found["path"] or found["short_path"]
    scheme = "http" if remote.startswith("http://") else "https"
    port = found["port"] or "" if remote.startswith("http") else ""  # that of ssh is no web server's
    return f"{scheme}://{host}{port}/{path.strip('/').removesuffix('.git')}"


def commit_address(web: str, commit: str) -> str:
    """The page of a commit at the address of a repository's pages, as most hosts have it."""
    return f"{web}/{'commits' if web.startswith('https://bitbucket.org/') else 'commit'}/{quote(commit)}"


async def web_address_of(
    root: Path, environment: Mapping[str, str] = os.environ, *, launch: Launcher = run_process, limit_s: float = 3.0
) -> str:
    """The address of the pages of the repository that the folder `root` is in, by its remote `origin`; empty where
    there is none that git tells in time."""
    arguments = (*GIT, "config", "--get", "remote.origin.url")
    with anyio.move_on_after(limit_s):
        try:
            found = await launch(arguments, environment=git_environment(environment), folder=root)
        except (CkwatchError, OSError):
            return ""
        return web_address(found.stdout) if found.succeeded else ""
    return ""
