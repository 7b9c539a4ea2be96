"""The version of code: another one whenever what makes results has changed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from ckwatch.engine.handlers import analyze, verify
from ckwatch.system.code_version import PACKAGE, imported_modules, version_of
from ckwatch.verification.library import source_files


def edited(package: Path, module: str, old: str, new: str) -> None:
    path = package.joinpath(*module.split(".")).with_suffix(".py")
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_only_code_that_makes_results_changes_the_version(tmp_path: Path) -> None:
    package = tmp_path / "ckwatch"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))

    def version() -> str:
        return version_of(verify.VERIFYING_MODULES, sorted((package / "verification/native").iterdir()), package)

    before = version()
    assert before == version_of(verify.VERIFYING_MODULES, source_files())
    edited(package, "verification.problems", "_MOST_ROUNDS = 10", "_MOST_ROUNDS = 11")  # the key has the trials
    (package / "bench/another.py").write_text("x = 1\n")
    assert version() == before
    versions = {before}
    for module, old, new in (
        ("verification.verify_job", "1 << 40", "1 << 41"),
        ("bench.numerics.tolerance", "return ", "return 0 or "),
        ("model.tensors", "return ", "return 0 or "),
        ("verification.findings", "return ", "return 0 or "),
        ("verification.library", "-O3", "-O2"),
        ("bench.worker_session", "return ", "return 0 or "),
    ):
        edited(package, module, old, new)
        versions.add(version())
    with (package / "verification/native/hip.c").open("a") as hip:
        hip.write("int more;\n")
    assert len({*versions, version()}) == 8


def test_it_is_of_all_that_a_worker_imports_to_verify() -> None:
    code = "import sys, ckwatch.verification.verify_job; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    loaded = [name for name in found if name.startswith("ckwatch.")]
    assert {"ckwatch.verification.verify_job", "ckwatch.model.trials"} <= set(loaded)
    assert set(loaded) <= set(imported_modules(verify.VERIFYING_MODULES))
    assert "ckwatch.verification.problems" not in loaded, "what chooses problems is no part of executing them"


def test_the_room_of_reports_has_more_than_what_makes_them() -> None:
    names = imported_modules(analyze.REPORTING_MODULES)
    assert {"ckwatch.codeobject.occupancy", "ckwatch.compile.elf"} <= set(names)
    assert "ckwatch.codeobject.listing_text" not in names
