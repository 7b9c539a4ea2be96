"""Objects are told apart by their code, not by the names that they export."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ckwatch.compile.elf import code_digest

COMPILER = shutil.which("cc")

SOURCE = """
#include <stdio.h>
int NAME(const float* x, float* y, int n) {
    if (n < 0) { fprintf(stderr, "TEXT: no size\\n"); return -23; }
    for (int i = 0; i < n; ++i) y[i] = x[i] * FACTOR;
    return 0;
}
"""


def digest(folder: Path, **words: str) -> str:
    assert COMPILER is not None
    text = SOURCE
    for word, value in ({"NAME": "first", "TEXT": "first", "FACTOR": "3.5f"} | words).items():
        text = text.replace(word, value)
    source = folder / "kernel.c"
    source.write_text(text)
    subprocess.run([COMPILER, "-O2", "-fPIC", "-c", source.name, "-o", "kernel.o"], cwd=folder, check=True)
    return code_digest((folder / "kernel.o").read_bytes())


def test_names_and_texts_of_one_length_do_not_count(tmp_path: Path) -> None:
    assert digest(tmp_path) == digest(tmp_path, NAME="other", TEXT="other")


@pytest.mark.parametrize("words", [{"FACTOR": "3.25f"}, {"fprintf": "fscanf"}, {"-23": "-24"}])
def test_code_constants_and_what_is_called_count(tmp_path: Path, words: dict[str, str]) -> None:
    assert digest(tmp_path) != digest(tmp_path, **words)


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(ValueError, match="ELF"):
        code_digest(b"no ELF")
