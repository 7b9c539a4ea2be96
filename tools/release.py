"""Build the sdist and the wheel of ckwatch, and try both as a user would, without the checkout.

`make dist` runs it. Everything up to the upload: versions that agree, contents, metadata, and each distribution in an
environment of its own, where `ckwatch init` and `ckwatch check` work.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
ELSEWHERE = {
    "CHANGELOG.md": r"^## (\d\S+) - \d{4}-\d\d-\d\d$",
    "editors/vscode/package.json": r'^  "version": "(.+)",$',
    "editors/emacs/ckwatch.el": r"^;; Version: (.+)$",
    "editors/zed/extension.toml": r'^version = "(.+)"$',
    "editors/zed/Cargo.toml": r'^version = "(.+)"$',
}
"""Other places of the version: the first match of the pattern in each file."""


def version() -> str:
    """Return the version of this checkout; exits where another file names a different one."""
    found = VERSION.search((ROOT / "daemon/ckwatch/model/version.py").read_text())
    assert found is not None  # noqa: S101
    for name, pattern in ELSEWHERE.items():
        other = re.search(pattern, (ROOT / name).read_text(), re.MULTILINE)
        if other is None or other[1] != found[1]:
            sys.exit(f"{name} names version {other and other[1]}, daemon/ckwatch/model/version.py {found[1]}")
    return found[1]


def notes(number: str) -> str:
    """Return the changelog's section of a version, without its heading."""
    text = (ROOT / "CHANGELOG.md").read_text()
    found = re.search(rf"^## {re.escape(number)} - .*\n+((?:(?!## ).*\n)+)", text, re.MULTILINE)
    if found is None:
        sys.exit(f"CHANGELOG.md has no section {number}")
    return found[1]


def packaged_files() -> dict[str, Path]:
    """Return the tracked files that a wheel must hold, by their names in it."""
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    places = {place: place.partition("/")[2] for place in wheel["packages"]} | wheel["force-include"]
    tracked = subprocess.run(["git", "ls-files", "-z", *places], cwd=ROOT, check=True, capture_output=True, text=True)
    names = [name for name in tracked.stdout.split("\0") if name and (ROOT / name).exists()]
    longest = sorted(places, key=len, reverse=True)
    return {
        places[place] + name.removeprefix(place): ROOT / name
        for name in names
        for place in [next(place for place in longest if name.startswith(f"{place}/"))]
    }


def check_contents(wheel: Path, sdist: Path) -> None:
    """Exit unless the wheel and the sdist hold every tracked file of the packages."""
    wanted = packaged_files()
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    with tarfile.open(sdist) as packed:
        sources = {name.partition("/")[2] for name in packed.getnames()}
    missing = sorted(wanted.keys() - held)
    missing += sorted(path.name for path in wanted.values() if str(path.relative_to(ROOT)) not in sources)
    if missing:
        sys.exit(f"missing in {DIST}: {', '.join(missing)}")
    strange = sorted(name for name in held - wanted.keys() if ".dist-info/" not in name)
    if strange:
        sys.exit(f"{wheel.name} holds files that git does not track: {', '.join(strange)}")
    print(f"{wheel.name}: {len(held)} files; {sdist.name}: {len(sources)} files")


def try_as_user(distribution: Path) -> None:
    """Install a distribution into a fresh environment and use it in a fresh workspace."""
    print(f"{distribution.name}:", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        venv.create(at / "env", with_pip=True)
        private = {"CKWATCH_TRUST_FILE": str(at / "trusted"), "XDG_RUNTIME_DIR": folder}
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | private

        def run(*command: str | Path) -> None:
            subprocess.run([str(word) for word in command], cwd=at, env=env, check=True)

        run(at / "env/bin/python", "-m", "pip", "install", "--quiet", distribution)
        ckwatch = at / "env/bin/ckwatch"
        run(ckwatch, "--version")
        subprocess.run([ckwatch, "doctor"], cwd=at, env=env, check=False)  # exit status 2 without a compiler
        run(ckwatch, "init", "kernels")
        run(ckwatch, "check", "--trust", "--no-daemon", "-C", at / "kernels")


def main() -> None:
    """Build and try; what is to be uploaded is in `dist`. `notes` prints what the release says on GitHub instead."""
    number = version()
    if sys.argv[1:] == ["notes"]:
        print(notes(number), end="")
        return
    shutil.rmtree(DIST, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "build", "--outdir", DIST, ROOT], check=True)
    wheel, sdist = DIST / f"ckwatch-{number}-py3-none-any.whl", DIST / f"ckwatch-{number}.tar.gz"
    check_contents(wheel, sdist)
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", wheel, sdist], check=True)
    for distribution in (wheel, sdist):
        try_as_user(distribution)
    print(f"{DIST} holds version {number}")


if __name__ == "__main__":
    main()
