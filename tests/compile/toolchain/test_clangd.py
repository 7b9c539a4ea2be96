"""Which clangd is taken, what is asked of it, and fetching one."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from ckwatch.compile.toolchain import debian
from ckwatch.compile.toolchain.clangd import ClangdProgram, fetch_clangd, find_clangd, major_to_fetch
from ckwatch.compile.toolchain.debian_programs import DebianProgram
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.installations import cache_folder
from ckwatch.compile.toolchain.model import FixedToolchainChoice, Toolchain
from ckwatch.compile.toolchain.nvcc import NvccToolchain, find_nvcc
from ckwatch.model.errors import ToolchainError
from helpers.kept_builds import FOLDER, content
from helpers.rocm_trees import make_program, make_rocm

CLANG = """case "$*" in
-print-resource-dir) echo "/the compiler's own";;
*) echo 'AMD clang version {major}.0.0git (https://github.com/RadeonOpenCompute {major})';;
esac"""


def make_clangd(path: Path, major: int, vendor: str = "") -> Path:
    """One that counts its calls in `calls` beside it."""
    return make_program(
        path, f"echo call >> '{path.with_name('calls')}'\necho '{vendor}clangd version {major}.1.8 (3)'"
    )


def make_fetched(env: Mapping[str, str], major: int) -> Path:
    tree = cache_folder(env) / f"clangd/clangd-{major}-0123abcd"
    made = make_clangd(tree / f"usr/lib/llvm-{major}/bin/clangd", major)
    (tree / "ckwatch-program.json").write_text(json.dumps({"layout": 1, "root": str(tree), "packages": []}))
    return made


def have_apt(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("apt-get", "apt-cache", "dpkg-deb"):
        make_program(folder / name, "exit 9")
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "PATH": f"{tmp_path}/first path:{tmp_path}/second"}


@pytest.fixture
def rocm(tmp_path: Path, env: dict[str, str]) -> Toolchain:
    root = make_rocm(tmp_path / "rocm", "7.2.0")
    make_program(root / "lib/llvm/bin/clang", CLANG.format(major=22))
    return discover(FixedToolchainChoice(rocm=root), env)


@pytest.fixture
def cuda(tmp_path: Path, env: dict[str, str]) -> NvccToolchain:
    make_program(tmp_path / "second/g++", "echo g++ 12.2.0")
    make_program(tmp_path / "cuda/bin/nvcc", "echo 'release 13.0, V13.0.88'")
    return find_nvcc({**env, "CUDA_HOME": str(tmp_path / "cuda")})


def path_of(found: ClangdProgram | None) -> Path | None:
    return None if found is None else found.path


def test_the_order_of_the_search(rocm: Toolchain, env: dict[str, str], tmp_path: Path) -> None:
    assert find_clangd(rocm, env) is None
    for place in ("first path/clangd", "second/clangd-22"):
        made = make_clangd(tmp_path / place, 22)
        assert path_of(find_clangd(rocm, env)) == made
    made = make_fetched(env, 22)
    assert path_of(find_clangd(rocm, env)) == made
    made = make_clangd(rocm.clang.with_name("clangd"), 22)
    assert path_of(find_clangd(rocm, env)) == made
    named = make_clangd(tmp_path / "named", 22)
    assert path_of(find_clangd(rocm, env, named)) == named


def test_what_is_known_of_it(rocm: Toolchain, env: dict[str, str], tmp_path: Path) -> None:
    made = make_clangd(tmp_path / "second/clangd", 22, "Debian ")
    found = find_clangd(rocm, env)
    assert found == ClangdProgram(made, "Debian clangd version 22.1.8 (3)", 22, Path("/the compiler's own"))


def test_one_of_another_version_is_taken_only_where_it_is_named(
    rocm: Toolchain, env: dict[str, str], tmp_path: Path
) -> None:
    make_clangd(tmp_path / "first path/clangd", 21)
    make_clangd(tmp_path / "first path/clangd-22", 2)
    make_fetched(env, 23)
    beside = make_clangd(rocm.clang.with_name("clangd"), 19)
    assert find_clangd(rocm, env) is None
    assert find_clangd(rocm, env, beside) == ClangdProgram(beside, "clangd version 19.1.8 (3)", 19, None)


def test_what_does_not_work_is_passed_over(rocm: Toolchain, env: dict[str, str], tmp_path: Path) -> None:
    make_program(rocm.clang.with_name("clangd"), "exit 1")
    make_clangd(tmp_path / "first path/clangd-22", 22).chmod(0o644)
    make_program(tmp_path / "first path/clangd", "echo a wrapper")
    made = make_clangd(tmp_path / "second/clangd", 22)
    assert path_of(find_clangd(rocm, env)) == made


def test_a_path_that_is_relative_to_somewhere_is_left_out(
    rocm: Toolchain, env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_clangd(tmp_path / "here/clangd", 22)
    monkeypatch.chdir(tmp_path / "here")
    assert find_clangd(rocm, {**env, "PATH": ".::here"}) is None
    assert path_of(find_clangd(rocm, {**env, "PATH": str(made.parent)})) == made


@pytest.mark.parametrize(
    ("text", "message"),
    [("exit 3", "failed with status 3"), ("echo clang version 22.0", "this is not clangd, according to its --version")],
)
def test_a_named_one_that_is_none(
    rocm: Toolchain, env: dict[str, str], tmp_path: Path, text: str, message: str
) -> None:
    make_clangd(tmp_path / "second/clangd", 22)
    named = make_program(tmp_path / "named", text)
    with pytest.raises(ToolchainError, match=message) as caught:
        find_clangd(rocm, env, named)
    assert caught.value.message.startswith(f"[toolchain] clangd = {named}: ")
    assert "leave the setting out" in (caught.value.hint or "")
    named.unlink()
    with pytest.raises(ToolchainError, match="there is no program"):
        find_clangd(rocm, env, named)


def test_it_is_asked_once(rocm: Toolchain, env: dict[str, str], tmp_path: Path) -> None:
    made = make_clangd(tmp_path / "second/clangd", 22)
    assert find_clangd(rocm, env) == find_clangd(rocm, env)
    assert made.with_name("calls").read_text() == "call\n"
    make_clangd(made, 21)
    assert find_clangd(rocm, env) is None


def test_the_identity_of_the_compiler_is_the_same_with_it(rocm: Toolchain, env: dict[str, str], tmp_path: Path) -> None:
    make_clangd(rocm.clang.with_name("clangd"), 22)
    named = make_clangd(tmp_path / "named", 22)
    assert discover(FixedToolchainChoice(rocm=rocm.root, clangd=named), env) == rocm


def test_for_cuda_any_that_is_new_enough(cuda: NvccToolchain, env: dict[str, str], tmp_path: Path) -> None:
    old = make_clangd(tmp_path / "second/clangd-15", 15)
    assert find_clangd(cuda, env) is None
    for name, major in (("clangd", 16), ("clangd-9", 17), ("clangd-18", 18), ("clangd-100", 100)):
        made = make_clangd(tmp_path / "second" / name, major)
        found = find_clangd(cuda, env)
        assert found == ClangdProgram(made, f"clangd version {major}.1.8 (3)", major, None)
    assert path_of(find_clangd(cuda, env, old)) == old
    make_fetched(env, 15)
    fetched = make_fetched(env, 19)
    assert path_of(find_clangd(cuda, env)) == fetched


def test_which_version_is_fetched(rocm: Toolchain, cuda: NvccToolchain, env: dict[str, str]) -> None:
    assert major_to_fetch(rocm) == 22
    assert major_to_fetch(cuda) >= 16
    make_program(rocm.clang, "echo something else")
    odd = discover(FixedToolchainChoice(rocm=rocm.root), env)
    with pytest.raises(ToolchainError, match="reports no version: something else"):
        major_to_fetch(odd)


async def test_what_is_fetched_is_found(
    rocm: Toolchain, env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []
    options: list[dict[str, object]] = []

    async def fetch(folder: Path, wanted: DebianProgram, _progress: object, **given: object) -> Path:
        made.append(make_fetched(env, 22))
        options.append(given)
        assert (wanted.package, folder / "clangd-22-0123abcd" / wanted.path) == ("clangd-22", made[0])
        return made[0]

    have_apt(tmp_path / "apt", monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home/.cache"))
    assert await fetch_clangd(22, mirror="http://m", force=True, fetch=fetch) == made[0]
    assert path_of(find_clangd(rocm, env)) == made[0]
    assert options == [{"mirror": "http://m", "force": True}]


async def test_a_fetch_that_fails_says_what_else_can_be_done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hints: list[str | None] = []

    async def fail(*_: object, **__: object) -> Path:
        raise ToolchainError("the disk is full", hints[-1])

    own = "Install clangd 21 and put it on PATH, or name it: `clangd` in [toolchain] of ckwatch.toml."
    have_apt(tmp_path, monkeypatch)
    for hint, said in ((None, own), ("Free some space.", f"Free some space.\nOr: {own}")):
        hints.append(hint)
        with pytest.raises(ToolchainError) as caught:
            await fetch_clangd(21, fetch=fail)
        assert (caught.value.message, caught.value.hint) == ("cannot fetch clangd 21: the disk is full", said)


async def test_without_apt_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match="this system has no apt-get") as caught:
        await fetch_clangd(22)
    assert "`clangd` in [toolchain]" in (caught.value.hint or "")


@pytest.mark.network
@pytest.mark.skipif(shutil.which("apt-get") is None, reason="no apt on this system")
@pytest.mark.parametrize("major", [22, 16])
async def test_a_real_one_answers(major: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """22 is that of the toolchain, fetched into the user's own cache unless it is there.

    16 is of a Debian whose packages have files outside of /usr, and that the newest one has no more. It is kept for later
    runs as long as the code that unpacks is the same.
    """
    if major == 16:
        monkeypatch.setenv(
            "XDG_CACHE_HOME", str(FOLDER / "clangd" / content(Path(debian.__file__).parent, "*debian*.py"))
        )
    program = await fetch_clangd(major)
    tree = program.parents[4]
    assert list(tree.glob(f"usr/lib/llvm-{major}/lib/clang/*/include/stddef.h"))
    source = tmp_path / "x.cpp"
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": {"processId": os.getpid(), "rootUri": None, "capabilities": {}}},
        {"method": "initialized", "params": {}},
        {"method": "textDocument/didOpen", "params": {"textDocument": {"uri": source.as_uri(), "languageId": "cpp",
            "version": 1, "text": "#include <stddef.h>\nsize_t size = sizeof(wrong);\n"}}},
        {"id": 2, "method": "textDocument/hover", "params": {"textDocument": {"uri": source.as_uri()},
            "position": {"line": 1, "character": 8}}},
        {"id": 3, "method": "shutdown"},
        {"method": "exit"},
    ]  # fmt: skip
    bodies = [json.dumps({"jsonrpc": "2.0", **message}) for message in messages]
    text = "".join(f"Content-Length: {len(body)}\r\n\r\n{body}" for body in bodies)
    done = await anyio.run_process([program, "--sync"], input=text.encode())
    said = done.stdout.decode()
    assert f"clangd version {major}." in said
    assert "size_t (aka unsigned long)" in said
    assert "undeclared identifier 'wrong'" in said
