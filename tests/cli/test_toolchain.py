"""Report of `ckwatch doctor` on compiling in parts, and installations by `ckwatch toolchain install`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from ckwatch.cli import main
from ckwatch.cli.toolchain import parts_check
from ckwatch.compile.precompiled_headers import PrecompiledHeaderStore
from ckwatch.compile.store.artifacts import ArtifactStore, default_folder
from ckwatch.compile.store.header_sets import PathRoots
from ckwatch.compile.toolchain import installations
from ckwatch.compile.toolchain.composable_kernel import RELEASES, CkRelease
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.doctor import CheckState
from ckwatch.compile.toolchain.install_steps import InstallStep, OnProgress
from ckwatch.compile.toolchain.model import FixedToolchainChoice, Toolchain
from ckwatch.compile.toolchain.nvcc import find_nvcc
from ckwatch.compile.toolchain.rocm_libraries import LibraryPackage, libraries_folder, packages_to_json
from ckwatch.model.errors import ToolchainError
from ckwatch.model.rocm_libraries import RocmLibrary
from ckwatch.workspace.trust import trust
from helpers.rocm_trees import make_installed, make_program, make_rocm

PLAN = Path(__file__).parent.parent / "data/hipcc/commands.txt"


@pytest.fixture
def toolchain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toolchain:
    """A tree whose hipcc prints the commands of a real one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = make_rocm(tmp_path / "rocm", "7.2.0", ck=True)
    hipcc = tmp_path / "hipcc"
    make_program(hipcc, f"cat {PLAN} >&2")
    found = discover(FixedToolchainChoice(rocm=root), {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    return replace(found, hipcc=hipcc)


async def test_a_compiler_that_can(toolchain: Toolchain) -> None:
    check = await parts_check(None, toolchain)
    assert (check.state, "side by side" in check.detail) == (CheckState.OK, True)


async def test_commands_of_another_kind(toolchain: Toolchain) -> None:
    make_program(toolchain.hipcc, """echo ' "clang" "-cc1" "kernel.hip"' >&2""")
    check = await parts_check(None, toolchain)
    assert check.state is CheckState.NOTE
    assert "cannot run separately: hipcc runs 1 programs where 4 were expected" in check.detail


async def test_a_compiler_that_refuses(toolchain: Toolchain) -> None:
    store = ArtifactStore(default_folder())
    PrecompiledHeaderStore(store, PathRoots(toolchain.roots), toolchain.identity).refuse(
        "error: PCH file uses another format"
    )
    check = await parts_check(None, toolchain)
    assert (check.state, "uses another format" in check.detail) == (CheckState.NOTE, True)
    other = await parts_check(None, replace(toolchain, identity="another compiler"))
    assert other.state is CheckState.OK


@dataclass
class FakeInstallers:
    """Installers that only record in `done` what they were asked for; `discover` and `find_nvcc` look for compilers."""

    folder: Path
    done: list[str] = field(default_factory=list)
    discover: Callable[..., object] = discover
    find_nvcc: Callable[..., object] = find_nvcc
    has_libraries: bool = False
    unreachable: str = ""

    def command(self, *words: str) -> int:
        """Run `toolchain install` and return its exit status."""
        return main(
            ["toolchain", "install", *words],
            discover=self.discover,
            find_nvcc=self.find_nvcc,
            install_toolchain=self._rocm,
            install_composable_kernel=self._composable_kernel,
            fetch_clangd=self._clangd,
            fetch_clang_headers=self._clang_headers,
            install_libraries=self._libraries,
        )

    async def _rocm(self, rocm: str | None, *, clang: int | None, **_: object) -> object:
        self.done.append(" ".join(["rocm", *([rocm] if rocm else []), *([f"clang {clang}"] if clang else [])]))
        return SimpleNamespace(name="rocm-7", root=self.folder / "rocm-7")

    async def _composable_kernel(self, release: CkRelease, **_: object) -> object:
        self.done.append("ck" if release == RELEASES[0] else release.name)
        return SimpleNamespace(root=self.folder / "ck")

    async def _libraries(
        self, wanted: Sequence[RocmLibrary], *, mirror: str | None, force: bool, **_: object
    ) -> object:
        names = ",".join(library.name for library in wanted)
        self.done.append(f"libraries {names} {mirror} {force}")
        return SimpleNamespace(folder=self.folder / "include", fetched=() if self.has_libraries else ("rocprim",))

    async def _clangd(self, major: int, progress: OnProgress, *, mirror: str | None, force: bool) -> Path:
        self.done.append(f"clangd {major} {mirror} {force}")
        progress(InstallStep("Fetching it"))
        return self.folder / "fetched/clangd"

    async def _clang_headers(self, toolchain: Toolchain, _progress: OnProgress, *, mirror: str, force: bool) -> Path:
        self.done.append(f"clang headers {toolchain.clang_version} {mirror} {force}")
        if self.unreachable:
            raise ToolchainError(self.unreachable)
        return self.folder / "include"


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeInstallers:
    """The compiler is one of version 22, and no clangd is on PATH."""
    root = make_rocm(tmp_path / "rocm")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ROCM_PATH", str(root))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.chdir(tmp_path)
    return FakeInstallers(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ["rocm", "ck"]),
        (["ck"], ["ck"]),
        (["--clangd"], ["clangd 22 None False"]),
        (["ck", "--clangd", "--force", "--mirror", "http://m"], ["ck", "clangd 22 http://m True"]),
        (["all", "--clangd"], ["rocm", "ck", "clangd 22 None False"]),
        (["--clang-headers"], ["clang headers clang version 22.0.0 None False"]),
        (["--rocm", "6.4"], ["rocm 6.4", "ck"]),
        (["--rocm", "6.4", "--ck", "1.1"], ["rocm 6.4", "ck-1.1.0"]),
        (["--clang", "23"], ["rocm clang 23", "ck"]),
        (["--ck", "1.1.0", "--clangd"], ["ck-1.1.0", "clangd 22 None False"]),
    ],
)
def test_what_is_installed(fakes: FakeInstallers, arguments: list[str], expected: list[str]) -> None:
    assert fakes.command(*arguments) == 0
    assert fakes.done == expected


def test_a_composable_kernel_that_no_package_brings(fakes: FakeInstallers, capsys: pytest.CaptureFixture[str]) -> None:
    assert fakes.command("--ck", "1.3") == 2
    assert "no package is known that brings Composable Kernel 1.3: there are 1.2.0 and 1.1.0" in capsys.readouterr().err
    assert fakes.done == []


def test_what_is_said_of_clangd(fakes: FakeInstallers, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fakes.command("--clangd")
    captured = capsys.readouterr()
    assert re.fullmatch(rf"clangd installed in \d+ s: {tmp_path}/fetched/clangd\n", captured.out)
    assert "Fetching it" in captured.err
    made = make_program(tmp_path / "rocm/lib/llvm/bin/clangd", "echo 'clangd version 22.1.8'")
    fakes.command("--clangd")
    assert capsys.readouterr().out == f"clangd is installed already: {made}\n"
    fakes.command("--clangd", "--force")
    assert len(fakes.done) == 2


def test_the_workspace_names_its_clangd(
    fakes: FakeInstallers, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_program(tmp_path / "own", "echo 'clangd version 19.1.8'")
    (tmp_path / "ckwatch.toml").write_text(f'[toolchain]\nclangd = "{made}"\n')
    monkeypatch.setenv("CKWATCH_TRUST_FILE", str(tmp_path / "trusted"))
    trust(tmp_path)
    fakes.command("--clangd")
    assert capsys.readouterr().out == f"clangd is installed already: {made}\n"
    assert fakes.done == []


def test_clangd_without_a_compiler(fakes: FakeInstallers, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def none(*_: object) -> None:
        raise ToolchainError("no HIP compiler found")

    fakes.discover = fakes.find_nvcc = none
    assert fakes.command("--clangd") == 2
    assert "no HIP compiler found" in capsys.readouterr().err
    fakes.find_nvcc = find_nvcc
    make_program(tmp_path / "bin/nvcc", "echo 'release 13.0, V13.0.88'")
    make_program(tmp_path / "bin/g++", "echo g++ 12")
    assert fakes.command("--clangd") == 0
    assert fakes.done == ["clangd 22 None False"]


LIBRARIES = "libraries rocprim,hipcub None False"


@pytest.mark.parametrize(
    ("there", "arguments", "expected"),
    [
        (True, [], [LIBRARIES]),
        (True, ["ck"], ["ck", LIBRARIES]),
        (True, ["all", "--force", "--mirror", "http://m"], ["rocm", "ck", "libraries rocprim,hipcub http://m True"]),
        (False, [], ["rocm", "ck", LIBRARIES]),
    ],
)
def test_libraries_are_added_to_the_private_toolchain(
    fakes: FakeInstallers, monkeypatch: pytest.MonkeyPatch, there: bool, arguments: list[str], expected: list[str]
) -> None:
    monkeypatch.delenv("ROCM_PATH")
    if there:
        make_installed(installations.toolchains_folder(os.environ))
    else:
        fakes.discover = no_compiler
    assert fakes.command(*arguments, "--with", "hipcub", "--with", "rocprim") == 0
    assert fakes.done == expected


def no_compiler(*_: object) -> None:
    raise ToolchainError("no HIP compiler found")


def test_what_is_said_of_libraries(
    fakes: FakeInstallers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_installed(installations.toolchains_folder(os.environ))
    fakes.has_libraries = True
    assert fakes.command("--with", "rocprim") == 0
    captured = capsys.readouterr()
    assert captured.out == f"the headers of rocprim are installed already: {tmp_path}/include\n"
    assert f"Without effect here: the ROCm at {tmp_path}/rocm is used" in captured.err
    monkeypatch.delenv("ROCM_PATH")
    fakes.has_libraries = False
    assert fakes.command("--with", "hipcub") == 0
    captured = capsys.readouterr()
    assert re.fullmatch(rf"the headers of rocprim, hipcub installed in \d+ s: {tmp_path}/include\n", captured.out)
    assert "Without effect" not in captured.err


def test_libraries_for_a_rocm_that_has_its_own(fakes: FakeInstallers, capsys: pytest.CaptureFixture[str]) -> None:
    assert fakes.command("--with", "rocprim") == 2
    assert "has libraries of its own" in capsys.readouterr().err
    assert fakes.command("--with", "rocpim") == 2
    assert "did you mean `rocprim`?" in capsys.readouterr().err
    assert fakes.done == []


def test_a_toolchain_that_is_installed_again_gets_its_libraries_back(fakes: FakeInstallers) -> None:
    tree = make_installed(installations.toolchains_folder(os.environ)).root
    libraries_folder(tree).mkdir()
    packages = [LibraryPackage("rocrand", "librocrand-dev", "7.2.4-1", "aa")]
    (libraries_folder(tree) / "ckwatch-libraries.json").write_text(packages_to_json(packages))
    assert fakes.command("--force") == 0
    assert fakes.done == ["rocm", "ck", "libraries rocrand None True"]


DEBIAN = "Debian clang version 22.1.8 (3)"


@pytest.mark.parametrize("failing", [False, True])
def test_the_headers_of_clang_come_along(
    fakes: FakeInstallers, capsys: pytest.CaptureFixture[str], failing: bool
) -> None:
    """A whole toolchain is installed without them where they cannot be fetched."""
    fakes.discover = lambda choice: replace(discover(choice), clang_version=DEBIAN)
    if failing:
        fakes.unreachable = "nobody answers"
    assert fakes.command() == 0
    assert fakes.done == ["rocm", "ck", f"clang headers {DEBIAN} None False"]
    captured = capsys.readouterr()
    assert ("the headers of clang installed in" in captured.out) is not failing
    assert (
        "not installed: nobody answers; `ckwatch toolchain install --clang-headers` tries" in captured.err
    ) is failing
    assert fakes.command("--clang-headers") == (2 if failing else 0)


@pytest.mark.parametrize("arguments", [["--no-clang-headers"], ["--rocm", "6.4"], ["ck"]])
def test_the_headers_of_clang_stay_away(fakes: FakeInstallers, arguments: list[str]) -> None:
    fakes.discover = lambda choice: replace(discover(choice), clang_version=DEBIAN)
    assert fakes.command(*arguments) == 0
    assert not [done for done in fakes.done if done.startswith("clang headers")]
