"""How git is called: as an argument list, without what a repository's settings could run, and without locks."""

from __future__ import annotations

from collections.abc import Mapping

GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")


def git_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a call. Variables of a hook that runs ckwatch, such as GIT_DIR, do not count."""
    own = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
    return own | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
