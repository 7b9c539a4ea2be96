"""Make `.venv` and install ckwatch with its development tools into it, on a machine that has only Python.

pylock.toml (PEP 751) pins the packages by version and hash. pip reads it only since 26.1, and distributions ship older
ones: it gets the same as requirements with hashes.

Debian and Ubuntu ship Python without `ensurepip` unless python3-venv is installed. Then pip is taken, as an ordinary
user, from the distribution's own package python3-pip-whl: downloaded by apt-get, unpacked by dpkg-deb, installed
nowhere. Only the standard library is used here.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
OLDEST = (3, 11)


def run(*command: str | Path, **options: object) -> None:
    """Run a command; its failure ends this program with its status."""
    status = subprocess.run([str(part) for part in command], **options).returncode  # type: ignore[call-overload]
    if status:
        sys.exit(status)


def pip_from_distribution(folder: Path) -> Path:
    """The pip wheel of the distribution, unpacked below `folder`. Exits with what to install if there is none."""
    installed = sorted(Path("/usr/share/python-wheels").glob("pip-*.whl"))
    if installed:
        return installed[-1]
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        sys.exit("this Python has no ensurepip: install your system's package for Python virtual environments")
    for command in (["apt-get", "download", "python3-pip-whl"],):
        if subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL).returncode:
            sys.exit("this Python has no ensurepip: run 'apt-get install python3-venv' (or 'apt-get update' first)")
    for package in folder.glob("*.deb"):
        run("dpkg-deb", "-x", package, folder)
    wheels = sorted(folder.glob("usr/share/python-wheels/pip-*.whl"))
    if not wheels:
        sys.exit("python3-pip-whl holds no pip wheel: run 'apt-get install python3-venv'")
    return wheels[-1]


def create() -> None:
    """Create the environment with pip in it."""
    if importlib.util.find_spec("ensurepip") is not None:
        venv.create(ENVIRONMENT, with_pip=True, clear=True)
        return
    venv.create(ENVIRONMENT, with_pip=False, clear=True)
    with tempfile.TemporaryDirectory() as folder:
        wheel = pip_from_distribution(Path(folder))
        run(ENVIRONMENT / "bin/python", wheel / "pip", "install", "--quiet", "pip")


def locked(lock: Path, *, with_wheels: bool) -> str:
    """Return the packages of a lock file that have wheels, or those that have none, as requirements with hashes."""
    lines = []
    for package in tomllib.loads(lock.read_text())["packages"]:
        wheels = package.get("wheels", [])
        if bool(wheels) == with_wheels:
            files = [*wheels, *([package["sdist"]] if "sdist" in package else [])]
            hashes = "".join(f" --hash=sha256:{file['hashes']['sha256']}" for file in files)
            lines.append(f"{package['name']}=={package['version']} ; {package['marker']}{hashes}\n")
    return "".join(lines)


def install() -> None:
    """Install what pylock.toml names, then ckwatch; setuptools and hatchling come from the lock, too."""
    options = {"env": os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}}
    pip = (ENVIRONMENT / "bin/python", "-m", "pip", "install", "--quiet", "--no-deps")
    with tempfile.TemporaryDirectory() as folder:
        wheels, sources = Path(folder, "wheels.txt"), Path(folder, "sources.txt")
        wheels.write_text(locked(ROOT / "pylock.toml", with_wheels=True))
        sources.write_text(locked(ROOT / "pylock.toml", with_wheels=False))
        run(*pip, "--require-hashes", "-r", wheels, **options)
        run(*pip, "--require-hashes", "--no-build-isolation", "--use-pep517", "-r", sources, **options)
    run(*pip, "--no-build-isolation", "-e", ROOT, **options)


def main() -> None:
    """Create `.venv` when it is missing or broken, then install."""
    if sys.version_info < OLDEST:
        sys.exit(f"ckwatch needs Python {OLDEST[0]}.{OLDEST[1]} or newer; this is {sys.version.split()[0]}")
    python = ENVIRONMENT / "bin/python"
    works = python.exists() and not subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode
    if not works:
        create()
    install()
    (ENVIRONMENT / ".installed").touch()


if __name__ == "__main__":
    main()
