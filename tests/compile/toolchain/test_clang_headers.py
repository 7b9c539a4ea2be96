"""Which C++ headers of clang are taken for a compiler, and fetching them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ckwatch.compile.toolchain.clang_headers import fetch_clang_headers, find_clang_headers
from ckwatch.compile.toolchain.debian_programs import DebianProgram
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.installations import cache_folder
from ckwatch.compile.toolchain.model import FixedToolchainChoice, Toolchain
from ckwatch.model.errors import ToolchainError
from helpers.rocm_trees import make_program, make_rocm


def make_headers(folder: Path, version: str) -> Path:
    for name, text in {
        "clang/Basic/Version.inc": f'#define CLANG_VERSION {version}\n#define CLANG_VERSION_STRING "{version}"\n',
        "llvm/ADT/StringRef.h": "",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def make_fetched(env: Mapping[str, str], version: str) -> Path:
    tree = cache_folder(env) / "clang-headers/libclang-22-dev-0123abcd"
    made = make_headers(tree / "usr/lib/llvm-22/include", version)
    (tree / "ckwatch-program.json").write_text(json.dumps({"layout": 1, "root": str(tree), "packages": []}))
    return made


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home/.cache"))
    return {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}


@pytest.fixture
def debian(tmp_path: Path, env: dict[str, str]) -> Toolchain:
    root = make_rocm(tmp_path / "rocm", "7.2.0")
    make_program(root / "lib/llvm/bin/clang", "echo 'Debian clang version 22.1.8 (3)'")
    return discover(FixedToolchainChoice(rocm=root), env)


def test_the_very_version(debian: Toolchain, env: dict[str, str]) -> None:
    assert find_clang_headers(debian, env) is None
    make_fetched(env, "22.1.7")
    assert find_clang_headers(debian, env) is None
    fetched = make_fetched(env, "22.1.8")
    assert find_clang_headers(debian, env) == fetched
    # Debian's are of no other clang, whatever version it has.
    other = replace(debian, clang_version="AMD clang version 22.1.8 (https://github.com/ROCm/llvm-project)")
    assert find_clang_headers(other, env) is None
    own = make_headers(debian.clang.parent.parent / "include", "22.1.8")
    assert find_clang_headers(other, env) == find_clang_headers(debian, env) == own
    (own / "llvm/ADT/StringRef.h").unlink()
    assert find_clang_headers(debian, env) == fetched


@pytest.mark.parametrize("version", ["22.1.8", "22.1.9"])
async def test_what_is_fetched_is_found(debian: Toolchain, env: dict[str, str], version: str) -> None:
    asked: list[DebianProgram] = []

    async def fetch(_folder: Path, wanted: DebianProgram, _progress: object, **_given: object) -> Path:
        asked.append(wanted)
        return make_fetched(env, version)

    if version != "22.1.8":
        with pytest.raises(ToolchainError, match=r"another version than Debian clang version 22\.1\.8"):
            await fetch_clang_headers(debian, fetch=fetch)
        return
    first = await fetch_clang_headers(debian, fetch=fetch)
    assert await fetch_clang_headers(debian, fetch=fetch) == first == find_clang_headers(debian, env)
    (wanted,) = asked
    assert wanted.packages == ("libclang-22-dev", "llvm-22-dev")
    for path, taken in {
        "usr/lib/llvm-22/include/clang/AST/Decl.h": True,
        "usr/lib/llvm-22/include/llvm": True,
        "usr/include/llvm-c-22/llvm-c/Core.h": True,
        "usr/lib/llvm-22/lib/libclangAST.a": False,
    }.items():
        assert (re.fullmatch(wanted.kept, path) is not None) is taken


async def test_another_clang_is_not_debians(debian: Toolchain) -> None:
    with pytest.raises(ToolchainError, match="the headers of AMD clang 19 are not in Debian") as caught:
        await fetch_clang_headers(replace(debian, clang_version="AMD clang 19"))
    assert "LLVM's development files" in (caught.value.hint or "")
