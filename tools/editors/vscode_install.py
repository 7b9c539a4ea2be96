"""Install what the tests of the VS Code extension need: code-server, Playwright, Chromium and ripgrep.

    python -m tools.editors.vscode_install

code-server is Visual Studio Code in a browser; it and Playwright come from the npm registry in the versions of
`vscode/package-lock.json`, without running anybody's install scripts: of the native modules the four that are needed
are compiled here, one by one. Chromium and ripgrep are those of the machine, else Debian's: installed as root, unpacked
into the cache folder by anybody else. What is there already is left alone.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.editors.places import editors_folder

PINNED = Path(__file__).parent / "vscode"
NODE_MAJOR = 20

_CODE_SERVER = Path("node_modules/code-server")
_VSCODE = _CODE_SERVER / "lib/vscode"

_NATIVE: Mapping[Path, tuple[str, ...]] = {
    # what node-pre-gyp, which argon2 is usually built by, would say
    Path("node_modules/argon2"): (
        "--module_name=argon2",
        "--module_path={}/lib/binding/napi-v3",
        "--napi_build_version=3",
    ),
    _VSCODE / "node_modules/@vscode/spdlog": (),
    _VSCODE / "node_modules/native-watchdog": (),
    _VSCODE / "node_modules/node-pty": (),
}
"""The native modules, with options for node-gyp, where `{}` is the module's folder. argon2 hashes passwords, which
code-server loads in any case; the others are VS Code's log, watchdog and terminal."""


class InstallError(Exception):
    """Something that the user can mend; the message says how."""


@dataclass(frozen=True, slots=True)
class VsCode:
    """Parts needed to see the extension in a page."""

    node: str
    code_server: Path
    """The script that node runs."""
    playwright: Path
    """The folder `node_modules` that has playwright-core."""
    chromium: str


def install(env: Mapping[str, str] = os.environ, say: Callable[[str], None] = lambda _: None) -> VsCode:
    """Install what is missing. Raises `InstallError` for everything that a user can mend."""
    node = _node()
    folder = editors_folder(env) / "vscode"
    folder.mkdir(parents=True, exist_ok=True)
    programs = {name: program(name, folder, say) for name in ("chromium", "rg")}
    lock = (PINNED / "package-lock.json").read_bytes()
    final = folder / hashlib.sha256(lock).hexdigest()[:16]
    if not final.is_dir():
        work = Path(tempfile.mkdtemp(prefix=".work-", dir=folder))
        try:
            _build(work, node, programs["rg"], say)
            work.chmod(0o755)
            work.rename(final)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return VsCode(node, final / _CODE_SERVER / "out/node/entry.js", final / "node_modules", programs["chromium"])


def package_extension(source: Path, say: Callable[[str], None] = lambda _: None) -> Path:
    """Build the extension at `source`; the `.vsix` file. Its own packages are installed where they are missing."""
    node_packages(source, say)
    _run(["npm", "run", "package"], source)
    return source / "dist/ckwatch.vsix"


def node_packages(source: Path, say: Callable[[str], None] = lambda _: None) -> None:
    """Install the packages of `package-lock.json` in `source`, unless those that are there belong to it."""
    installed = source / "node_modules/.package-lock.json"
    if not installed.is_file() or installed.stat().st_mtime < (source / "package-lock.json").stat().st_mtime:
        say(f"{source.name}: npm ci")
        _run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], source)
        installed.touch()


def _node() -> str:
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        raise InstallError(f"Node.js {NODE_MAJOR} and npm are needed: install the packages nodejs and npm")
    version = _run([node, "--version"], PINNED).strip()
    if not version.startswith(f"v{NODE_MAJOR}."):
        raise InstallError(f"code-server needs Node.js {NODE_MAJOR}; {node} is {version}")
    return node


def _build(work: Path, node: str, ripgrep: str, say: Callable[[str], None]) -> None:
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(PINNED / name, work / name)
    say("code-server and Playwright: npm ci")
    _run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], work)
    vscode = work / _VSCODE
    # its npm-shrinkwrap.json pins versions, but has not all that `npm ci` wants
    _run(["npm", "install", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund"], vscode)
    gyp = work / "node_modules/node-gyp/bin/node-gyp.js"
    prefix = Path(node).resolve().parent.parent
    headers = [f"--nodedir={prefix}"] if (prefix / "include/node/node.h").is_file() else []
    for module, options in _NATIVE.items():
        say(f"code-server: compiling {module.name}")
        _run([node, gyp, "rebuild", *headers, *(option.format(work / module) for option in options)], work / module)
    (vscode / "node_modules.asar").symlink_to("node_modules")
    link = vscode / "node_modules/@vscode/ripgrep/bin/rg"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(ripgrep)
    _run([node, work / _CODE_SERVER / "out/node/entry.js", "--version"], work)


_PACKAGES = {"chromium": "chromium", "rg": "ripgrep"}
_BINARIES = {"chromium": "usr/lib/chromium/chromium", "rg": "usr/bin/rg"}


def program(name: str, folder: Path, say: Callable[[str], None] = lambda _: None) -> str:
    """The machine's program, or Debian's. Raises `InstallError`."""
    launcher = folder / "bin" / name
    found = shutil.which(name) or (str(launcher) if launcher.is_file() else None)
    if found is not None:
        return found
    package = _PACKAGES[name]
    if shutil.which("apt-get") is None:
        raise InstallError(f"{name} is needed: install {package}")
    if os.geteuid() == 0:
        say(f"{package}: apt-get install")
        _run(["apt-get", "install", "-y", "--no-install-recommends", package], folder)
        return shutil.which(name) or _missing(package)
    _unpack(package, folder, say)
    tree = folder / package
    program = tree / _BINARIES[name]
    if not program.is_file():
        return _missing(package)
    libraries = sorted({path.parent for path in tree.glob("usr/lib/**/*.so*")})
    launcher.parent.mkdir(exist_ok=True)
    launcher.write_text(
        "#!/bin/sh\n"
        f"export LD_LIBRARY_PATH={shlex.quote(':'.join(map(str, libraries)))}\n"
        f'exec {shlex.quote(str(program))} "$@"\n'
    )
    launcher.chmod(0o755)
    return str(launcher)


def _missing(package: str) -> str:
    raise InstallError(f"the package {package} has not the program that was expected in it")


def _unpack(package: str, folder: Path, say: Callable[[str], None]) -> None:
    """A package and what it depends on and the machine lacks, as apt would install it, in a folder of its own."""
    plan = _run(["apt-get", "install", "--simulate", "--no-install-recommends", package], folder)
    names = re.findall(r"^Inst (\S+)", plan, re.MULTILINE)
    say(f"{package}: downloading {len(names)} packages")
    with tempfile.TemporaryDirectory(dir=folder) as archives, tempfile.TemporaryDirectory(dir=folder) as tree:
        _run(["apt-get", "download", *names], Path(archives))
        for archive in sorted(Path(archives).glob("*.deb")):
            _run(["dpkg-deb", "-x", archive, tree], folder)
        Path(tree).chmod(0o755)
        shutil.rmtree(folder / package, ignore_errors=True)
        shutil.copytree(tree, folder / package, symlinks=True)


def _run(command: Sequence[str | Path], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[:2000]
        raise InstallError(f"{' '.join(map(str, command))} failed:\n{said}")
    return done.stdout


def _say(what: str) -> None:
    sys.stderr.write(f"{what}\n")


def main() -> int:
    """Exit status 2 when something could not be installed."""
    try:
        there = install(say=_say)
    except (InstallError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{there.code_server}\n{there.chromium}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
