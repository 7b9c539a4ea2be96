"""Symbols and device code, out of files made here and damaged here."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from ckwatch.compile.elf import (
    ElfError,
    ElfHeader,
    code_digest,
    exported_symbols,
    undefined_symbols,
    weaken,
)
from fakes.fake_compiler import DEVICE_CODE, OBJECT, SHARED_OBJECT, elf, object_symbols


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file"


def test_exports(file: Path) -> None:
    file.write_bytes(SHARED_OBJECT)
    assert exported_symbols(file) == ("k_1", "std")


def test_exports_of_a_real_library(file: Path) -> None:
    import _ctypes

    assert "PyInit__ctypes" in exported_symbols(Path(_ctypes.__file__))


@pytest.mark.parametrize(
    ("symbols", "expected"),
    [
        ([], ()),
        ([("defined", 1, 0, 5)], ()),
        ([("two", 1, 0, 0), ("defined", 1, 0, 5), ("one", 1, 2, 0)], ("one", "two")),
        ([("weak", 2, 0, 0), ("file", 0, 0, 0xFFF1)], ("weak",)),
    ],
)
def test_undefined_symbols(file: Path, symbols: list[tuple[str, int, int, int]], expected: tuple[str, ...]) -> None:
    file.write_bytes(elf(object_symbols(*symbols)))
    assert undefined_symbols(file) == expected


def test_symbols_of_a_shared_object_are_not_an_objects(file: Path) -> None:
    file.write_bytes(SHARED_OBJECT)
    assert undefined_symbols(file) == ()


def test_machine() -> None:
    assert (ElfHeader.read(DEVICE_CODE).machine, ElfHeader.read(OBJECT).machine) == (224, 62)
    for other in (b"\x7fELF", bytes(100)):
        with pytest.raises(ElfError):
            ElfHeader.read(other)


@pytest.mark.parametrize("whole", [OBJECT, SHARED_OBJECT], ids=["object", "shared object"])
def test_cut_short_anywhere(file: Path, whole: bytes) -> None:
    """Damage is a ValueError or shows nothing; it never is another exception."""
    for length in range(0, len(whole), 7):
        file.write_bytes(whole[:length])
        for read in (exported_symbols, undefined_symbols):
            with pytest.raises(ValueError, match=r"short|ELF"):
                read(file)


@pytest.mark.parametrize("whole", [OBJECT, SHARED_OBJECT], ids=["object", "shared object"])
def test_damage_is_nothing_but_an_elf_error(file: Path, whole: bytes) -> None:
    chance = random.Random(7)  # noqa: S311  # the same damage every time
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 9)):
            damaged[chance.randrange(16, len(damaged))] = chance.choice([0, 1, 0x7F, 0xFF])
        file.write_bytes(damaged)
        try:
            exported_symbols(file)
            undefined_symbols(file)
            code_digest(bytes(damaged))
            weaken(file, "k")
        except ElfError:
            refused += 1
    assert refused > 30


def test_symbols_without_a_table_of_names_are_damage(file: Path) -> None:
    data = bytearray(elf(object_symbols(("kernel", 1, 0, 5))))
    row = data.index(struct.pack("<I", 2), int.from_bytes(data[0x28:0x30], "little"))  # SHT_SYMTAB
    data[row + 36 : row + 40] = b"\xff" * 4
    file.write_bytes(data)
    with pytest.raises(ElfError, match="damaged table of symbols"):
        undefined_symbols(file)


def test_symbols_are_made_weak(file: Path) -> None:
    symbols = [("__hip_cuid_1", 1, 0, 5), ("kernel", 1, 0, 5), ("__hip_cuid_local", 0, 0, 5), ("more", 1, 0, 0)]
    file.write_bytes(elf(object_symbols(*symbols)))
    weaken(file, "__hip_cuid_")
    expected = [
        (name, 2 if name == "__hip_cuid_1" else binding, other, index) for name, binding, other, index in symbols
    ]
    assert file.read_bytes() == elf(object_symbols(*expected))


def test_what_is_no_object_cannot_be_weakened(file: Path) -> None:
    file.write_bytes(b"no object")
    with pytest.raises(ValueError, match="not an ELF-64 file"):
        weaken(file, "x")
    assert file.read_bytes() == b"no object"


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
