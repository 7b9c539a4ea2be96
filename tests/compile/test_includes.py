"""Headers that a compiler would never finish to read are found before it is started, where they are included."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ckwatch.compile.includes import FILES_LIMIT, possible_includes, unreadable_includes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "fifo.h")
    (tmp_path / "guarded.h").write_text("// first\n#ifndef G\n#define G\n#include <fifo.h>\n#endif\n")
    (tmp_path / "outer.h").write_text('#pragma once\n#include "sub/inner.h"\n')
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/inner.h").write_text('#include "near.h"\n#include "../outer.h"\n')
    os.mkfifo(tmp_path / "sub/near.h")
    (tmp_path / "plain.h").write_text("int a;\n")
    return tmp_path


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('#include "/dev/zero"\n', ["kernel.hip:1:10: /dev/zero"]),
        ("int a;\n  #  include <fifo.h> // why\n", ["kernel.hip:2:14: fifo.h"]),
        ('#include "guarded.h"\n', ["guarded.h:4:10: fifo.h"]),
        ('#include "outer.h"\n', ["sub/inner.h:1:10: sub/near.h"]),
        ('#include "plain.h"\n#include "nowhere.h"\n#include <hip/hip_runtime.h>\n', []),
        ('// #include "fifo.h"\n/*\n#include "fifo.h"\n*/\n', []),
        ('#if 0\n#include "fifo.h"\n#endif\n', []),
        ('#ifdef A\n#else\n#include "fifo.h"\n#endif\n#include "fifo.h"\n', ["kernel.hip:5:10: fifo.h"]),
        ('#include "a\0b"\n#include ""\n#include MACRO\n', []),
    ],
)
def test_where_it_is_included(folder: Path, source: str, expected: list[str]) -> None:
    log = unreadable_includes(source, "kernel.hip", [folder / "none", folder])
    found = [line.replace(f"{folder}/none/../", "").replace(f"{folder}/", "") for line in log.splitlines()]
    wanted = [
        f"{place}: error: '{path}' cannot be included: not a regular file"
        for place, _, path in (one.rpartition(": ") for one in expected)
    ]
    assert found == wanted


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('#include "outer.h"\n', ["outer.h", "sub/inner.h"]),
        ("#if 0\n#include <plain.h>\n#endif\n", ["plain.h"]),
        ("#if __has_include(<plain.h>)\n#endif\n", ["plain.h"]),
        ('#if defined(X) && __has_include("sub/inner.h")\n#endif\n', ["outer.h", "sub/inner.h"]),
        ("#include <hip/hip_runtime.h>\n// #include <plain.h>\n", []),
        ("#define M 1\n#if __has_include(M)\n#endif\n", []),
        ('#include "sub/../plain.h"\n', ["plain.h"]),
        ("#include <sub>\n#include <fifo.h>\n", []),
    ],
)
def test_what_may_be_included(folder: Path, source: str, expected: list[str]) -> None:
    assert possible_includes(source, [folder / "none", folder]) == [str(folder / name) for name in expected]


def test_all_places_of_a_name_may_be_read(folder: Path) -> None:
    (folder / "sub/plain.h").write_text("int b;\n")
    found = possible_includes("#include <plain.h>\n", [folder, folder / "sub"])
    assert found == [str(folder / "plain.h"), str(folder / "sub/plain.h")]


def test_a_name_that_a_macro_makes_up_cannot_be_told(folder: Path) -> None:
    with pytest.raises(ValueError, match="`#include HEADER` names a file by a macro"):
        possible_includes("#define HEADER <plain.h>\n#include HEADER\n", [folder])


def test_there_is_a_limit(folder: Path) -> None:
    names = [f"h{number}.h" for number in range(FILES_LIMIT + 1)]
    for name in names:
        (folder / name).touch()
    with pytest.raises(ValueError, match="more than 500 files"):
        possible_includes("".join(f'#include "{name}"\n' for name in names), [folder])
