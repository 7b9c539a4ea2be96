"""`ckwatch trust`, and the question whether to trust a workspace before its code runs."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from ckwatch.cli.command_words import workspace_at, workspace_if_any
from ckwatch.model.errors import CkwatchError, UntrustedError
from ckwatch.workspace.trust import (
    CODE,
    TrustState,
    distrust,
    is_shared,
    is_trusted,
    trust,
    trust_once,
    trust_state,
    trusted_folders,
    untrusted_words,
)


def run(options: argparse.Namespace) -> int:
    """List the trusted folders, add one, or take one off."""
    if options.list:
        for folder in trusted_folders():
            sys.stdout.write(f"{folder}{' (shared)' if is_shared(folder) else ''}\n")
        return 0
    if options.remove:
        _remove(_folder(options))
        return 0
    folder = _folder(options)
    if not folder.is_dir():
        raise CkwatchError(f"there is no folder {folder}")
    known = is_trusted(folder) and (is_shared(folder) or not options.shared)
    trust(folder, shared=options.shared)
    others = ", also where others can write" if options.shared else ""
    sys.stdout.write(f"{folder} {'was already trusted' if known else 'is now trusted'}{others}\n")
    return 0


def require_trust(root: Path, options: argparse.Namespace, *, served: bool = False, code: str = CODE) -> None:
    """Go on only with trust in the workspace at `root`: it is there, or given with the command, or asked for. `code`
    is what would run.

    Asks on a terminal only. Raises UntrustedError without trust. Where the workspace is `served` by a daemon that was
    started with trust, what it names since is a warning: the daemon does not use it.
    """
    state = trust_state(root)
    if state.trusted:
        return
    for_once: bool | None = getattr(options, "trust_once", None)
    if for_once:
        trust_once(root)
        return
    if options.trust or (sys.stdin.isatty() and sys.stderr.isatty() and _asked(root, state, code)):
        trust(root)
        return
    if served and state.listed:
        sys.stderr.write(f"ckwatch: {untrusted_words(root, state)}\n")
        sys.stderr.write(
            f"The daemon goes on as before; `ckwatch trust {shlex.quote(str(root))}` trusts it as it is.\n"
        )
        return
    raise UntrustedError(
        untrusted_words(root, state, code),
        "`--trust` trusts it from now on; `ckwatch trust --remove` undoes that"
        + ("" if for_once is None else "\n`--trust-once` trusts it for this command alone"),
    )


def trusted_workspace(options: argparse.Namespace) -> Path | None:
    """The workspace that is named, or that the command is run in, as far as that one is trusted."""
    root = workspace_if_any(options)
    if root is not None and options.workspace is None and not is_trusted(root):
        text = f"ckwatch: {root} is not trusted; its [toolchain] is left out (`ckwatch trust` trusts it)\n"
        sys.stderr.write(text)
        return None
    return root


def _asked(root: Path, state: TrustState, code: str) -> bool:
    words = untrusted_words(root, state) if state.listed else f"{code.capitalize()} of this workspace are code"
    sys.stderr.write(f"{words} that will run here.\n" if not state.listed else f"{words}\n")
    sys.stderr.write(f"Trust {root}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _folder(options: argparse.Namespace) -> Path:
    """The folder that is named, else the workspace that the command is about."""
    if options.folder is not None:
        return Path(options.folder).expanduser().resolve()
    return workspace_at(options)


def _remove(folder: Path) -> None:
    known = is_trusted(folder)
    distrust(folder)
    sys.stdout.write(f"{folder} {'is no longer trusted' if known else 'was not trusted'}\n")
