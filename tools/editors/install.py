"""Install Neovim, Emacs, Helix and tmux for the tests, as any user, touching nothing of the host.

    python -m tools.editors.install [neovim] [emacs] [helix] [tmux]

They come from Debian's unstable suite, where they are current, in the way of the private toolchain: resolved and
downloaded by apt in private folders, signatures and hashes checked, unpacked, made relocatable. What is there already
is left alone (`--force` replaces it); versions and hashes of all packages are kept in each tree's manifest.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.to_thread

from ckwatch.compile.toolchain import debian
from ckwatch.compile.toolchain.debian import (
    AptPackage,
    AptSources,
    PackageStanza,
    PrivateApt,
    find_keyring,
    require_tools,
)
from ckwatch.compile.toolchain.probe import run_tool
from ckwatch.compile.toolchain.relocate import find_patchelf, relocate
from ckwatch.compile.toolchain.unpack import unpack_deb
from ckwatch.model.errors import ToolchainError
from tools.editors.launchers import LAUNCHERS
from tools.editors.places import EDITORS, MANIFEST, Editor, Installed, editors_folder, installed

SUITE = "sid"

_LEFT_OUT = re.compile(
    r"usr/share/(doc|man|locale|info|lintian|bug|icons|applications|menu)/.*|usr/include/.*|usr/lib/gcc/.*\.a"
)

# Section `libs` of Debian, but of no use without a compiler.
_UNUSED = re.compile(
    r"libc-dev-bin|lib(asan|lsan|tsan|ubsan|hwasan|itm|quadmath|gprofng|ctf).*|gcc-\d+-base|libasound2-data"
)


def choose(editor: Editor, closure: Sequence[PackageStanza]) -> tuple[tuple[str, str], ...]:
    """Of a resolved closure the (package, version) pairs that the editor needs to run, sorted by name.

    Raises `ToolchainError` when a package that is needed is not among them.
    """
    by_name = {stanza.name: stanza for stanza in closure}
    named = {*editor.roots, *editor.extra}
    missing = sorted(named - by_name.keys())
    if missing:
        raise ToolchainError(f"Debian's {editor.name} lacks {', '.join(missing)}", "Please report this to ckwatch.")
    libraries = {name for name, stanza in by_name.items() if stanza.section == "libs" and not _UNUSED.fullmatch(name)}
    return tuple((name, by_name[name].version) for name in sorted(named | libraries))


async def install(editor: Editor, *, force: bool = False) -> Installed:
    """Install one editor and make it the one in use; with one there already and no `force`, return that.

    Raises `ToolchainError` for everything that a user can mend: no apt, no mirror, no network, a wrong hash.
    """
    present = installed(editor.name)
    if present is not None and not force:
        return present
    require_tools()
    find_patchelf()
    folder = editors_folder(os.environ)
    (folder / editor.name).mkdir(parents=True, exist_ok=True)
    mirror = debian.debian_mirror(await debian.configured_repositories(), debian.read_os_release(), os.environ)
    apt = PrivateApt(folder / ".apt", AptSources(mirror, find_keyring(), (SUITE,)))
    _say(f"{editor.name}: reading the package indexes of Debian {SUITE}")
    await apt.update()
    closure = await apt.describe(await apt.resolve(editor.roots, None))
    packages = await apt.locate(choose(editor, closure))
    _say(f"{editor.name}: downloading {len(packages)} packages, {sum(p.size_bytes for p in packages) / 1e6:.0f} MB")
    await apt.download(packages, on_bytes=lambda _: None)
    damaged = [package.name for package in packages if not apt.is_intact(package)]
    if damaged:
        for package in packages:
            if package.name in damaged:
                (apt.archives / package.file_name).unlink(missing_ok=True)
        raise ToolchainError(f"files that do not match their hashes: {', '.join(damaged)}", "Run it again.")
    return await _build(editor, folder / editor.name, apt.archives, packages)


async def _build(editor: Editor, folder: Path, archives: Path, packages: Sequence[AptPackage]) -> Installed:
    version = next(package.version for package in packages if package.name == editor.roots[0])
    final = folder / re.sub(r"^\d+:|[^0-9A-Za-z.~-].*$", "", version)
    work = Path(tempfile.mkdtemp(prefix=".work-", dir=folder))
    try:
        _say(f"{editor.name}: unpacking {version}")
        for package in packages:
            await anyio.to_thread.run_sync(_unpack, archives / package.file_name, work)
        await anyio.to_thread.run_sync(relocate, work, final)
        await anyio.to_thread.run_sync(_finish, editor, work, final)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    started = await run_tool(
        [final / "bin" / editor.program, *_VERSION[editor.name]], environment=os.environ, timeout_s=60
    )
    if started.exit_status:
        raise ToolchainError(f"{editor.name} does not run here: {(started.stderr or started.stdout).strip()}")
    done = Installed(
        editor.name,
        started.stdout.splitlines()[0].strip(),
        str(final / "bin" / editor.program),
        tuple((package.name, package.version, package.sha256) for package in packages),
    )
    (final / MANIFEST).write_text(done.to_json())
    link = folder / ".current.new"
    link.unlink(missing_ok=True)
    link.symlink_to(final.name)
    link.replace(folder / "current")
    return done


def _finish(editor: Editor, work: Path, final: Path) -> None:
    program = work / "bin" / editor.program
    program.parent.mkdir()
    program.write_text(LAUNCHERS[editor.name](final, work))
    program.chmod(0o755)
    work.chmod(0o755)
    shutil.rmtree(final, ignore_errors=True)
    work.rename(final)


_VERSION = {"tmux": ("-V",), "neovim": ("--version",), "emacs": ("--version",), "helix": ("--version",)}


def _unpack(deb: Path, target: Path) -> None:
    unpack_deb(deb, target, keep=lambda path: not _LEFT_OUT.fullmatch(path))


def _say(what: str) -> None:
    sys.stderr.write(f"{what}\n")


async def _main(names: Sequence[str], *, force: bool) -> int:
    status = 0
    for editor in EDITORS:
        if names and editor.name not in names:
            continue
        try:
            done = await install(editor, force=force)
        except (ToolchainError, OSError) as error:
            _say(f"{editor.name}: {error}")
            status = 2
        else:
            sys.stdout.write(f"{done.program}  {done.version}\n")
    return status


def main() -> int:
    """Install what is named, or everything; exit status 2 when something could not be installed."""
    parser = argparse.ArgumentParser(description="Install the editors of the tests into the user's cache folder.")
    parser.add_argument("names", nargs="*", metavar="EDITOR", help=", ".join(editor.name for editor in EDITORS))
    parser.add_argument("--force", action="store_true", help="replace what is there")
    given = parser.parse_args()
    unknown = sorted(set(given.names) - {editor.name for editor in EDITORS})
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    return anyio.run(lambda: _main(given.names, force=given.force))


if __name__ == "__main__":
    sys.exit(main())
