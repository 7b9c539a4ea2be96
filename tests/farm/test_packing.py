"""Files that travel to a worker, and those accepted from it."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from ckwatch.compile.request import CompileFault, CompileOutcome, CompileRequest, CompileStatus
from ckwatch.compile.store.content_hashes import ContentHashes
from ckwatch.compile.store.entries import CompilerCommand, ProductKind
from ckwatch.farm.messages import CompileOptions, FarmCompiled, toolchain_identity
from ckwatch.farm.packing import FarmError, PackedCompile, UnfitWorkerError, pack, unpack
from ckwatch.model.targets import Language
from fakes.fake_compiler import FakeToolchain

OPTIONS = CompileOptions(unit="k/a@gfx942", waiting=3, force=True)


@pytest.fixture
def toolchain(tmp_path: Path) -> FakeToolchain:
    ck = tmp_path / "rocm/include"
    (ck / "ck").mkdir(parents=True)
    (ck / "ck/ck.hpp").write_text("// ck\n")
    workspace = tmp_path / "ws"
    (workspace / "include").mkdir(parents=True)
    (workspace / "include/own.hpp").write_text('#include "deep.hpp"\n')
    (workspace / "include/deep.hpp").write_text("int deep;\n")
    program = tmp_path / "rocm/hipcc"
    roots = {"rocm": tmp_path / "rocm", "workspace": workspace}
    return FakeToolchain(program, program, roots=roots, include_folders=(ck,))


def request_of(toolchain: FakeToolchain, source: str = "#include <ck/ck.hpp>\n", **more: object) -> CompileRequest:
    request = CompileRequest(source, "k", Language.HIP, "gfx942", include_folders=(toolchain.roots["workspace"],))
    return replace(request, **more)  # type: ignore[arg-type]


def packed_of(toolchain: FakeToolchain, source: str = "#include <ck/ck.hpp>\n", **more: object) -> PackedCompile:
    return pack(request_of(toolchain, source, **more), toolchain, "1a2b", OPTIONS)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_what_the_workspace_has_travels_by_its_content(toolchain: FakeToolchain) -> None:
    packed = packed_of(toolchain, '#include "include/own.hpp"\n#include <ck/ck.hpp>\n')
    include = toolchain.roots["workspace"] / "include"
    assert dict(packed.message.files) == {
        "<workspace>/include/own.hpp": digest(include / "own.hpp"),
        "<workspace>/include/deep.hpp": digest(include / "deep.hpp"),
    }
    assert packed.contents[digest(include / "deep.hpp")] == b"int deep;\n"
    assert packed.message.request.include_folders == (Path("<workspace>"),)
    assert packed.message.options == OPTIONS


def test_folders_outside_of_the_workspace_get_names(toolchain: FakeToolchain, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "other.hpp").write_text("int other;\n")
    packed = packed_of(toolchain, '#include "other.hpp"\n', include_folders=(other,))
    ((name, _),) = packed.message.files
    folder = str(packed.message.request.include_folders[0])
    assert name == f"{folder}/other.hpp"
    assert packed.message.roots[folder.strip("<>")] == str(other)


def test_flags_are_carried_over(toolchain: FakeToolchain) -> None:
    include = toolchain.roots["workspace"] / "include"
    packed = packed_of(toolchain, '#include "own.hpp"\n', flags=(f"-I{include}", "-O3", "-DX=1/2"))
    assert packed.message.request.flags == ("-I<workspace>/include", "-O3", "-DX=1/2")
    assert len(packed.message.files) == 2


@pytest.mark.parametrize(
    "flags", [("-include", "/etc/x.h"), ("-L/usr/lib",), ("/tmp/a.o",), ("-fprofile-use=/tmp/x",), ("--sysroot", "/x")]
)
def test_a_flag_that_names_a_file_of_this_machine_stays_here(toolchain: FakeToolchain, flags: tuple[str, ...]) -> None:
    with pytest.raises(FarmError, match="names a file of this machine"):
        packed_of(toolchain, flags=flags)


def test_what_cannot_be_told_stays_here(toolchain: FakeToolchain, tmp_path: Path) -> None:
    with pytest.raises(FarmError, match="by a macro"):
        packed_of(toolchain, "#include HEADER\n")
    (tmp_path / "aside.hpp").touch()
    with pytest.raises(FarmError, match="lies in no folder that is searched"):
        packed_of(toolchain, '#include "../aside.hpp"\n')


@pytest.mark.parametrize("language", [Language.CPP, Language.CU])
def test_only_hip_goes_elsewhere(toolchain: FakeToolchain, language: Language) -> None:
    with pytest.raises(FarmError, match="only HIP"):
        packed_of(toolchain, language=language)


def answer(toolchain: FakeToolchain, **more: object) -> FarmCompiled:
    ck = toolchain.include_folders[0] / "ck/ck.hpp"
    made = FarmCompiled(
        machine="far",
        ok=True,
        log="In file <rocm>/include/ck/ck.hpp:1: warning\n",
        commands=(CompilerCommand(("<rocm>/hipcc", "-I<workspace>"), 0, 1.0, 5),),
        headers={"<rocm>/include/ck/ck.hpp": digest(ck)},
        exports=("k",),
        products={
            ProductKind.SHARED_OBJECT: ("kernel.so", b"so"),
            ProductKind.DEPENDENCIES: ("kernel.d", b"of the other machine"),
        },
    )
    return replace(made, **more)  # type: ignore[arg-type]


def taken(toolchain: FakeToolchain, folder: Path, **more: object) -> CompileOutcome:
    folder.mkdir(exist_ok=True)
    return unpack(packed_of(toolchain), answer(toolchain, **more), folder, ContentHashes(None))


def test_what_comes_back_is_as_if_it_was_made_here(toolchain: FakeToolchain, tmp_path: Path) -> None:
    outcome = taken(toolchain, tmp_path / "work")
    ck = toolchain.include_folders[0] / "ck/ck.hpp"
    assert outcome.status is CompileStatus.OK
    assert outcome.log == f"In file {ck}:1: warning\n"
    assert outcome.headers == (str(ck),)
    assert outcome.commands[0].arguments == (str(toolchain.hipcc), f"-I{toolchain.roots['workspace']}")
    assert outcome.files[ProductKind.SHARED_OBJECT].read_bytes() == b"so"
    assert str(ck) in outcome.files[ProductKind.DEPENDENCIES].read_text()


def test_another_header_makes_a_worker_unfit(toolchain: FakeToolchain, tmp_path: Path) -> None:
    with pytest.raises(UnfitWorkerError, match=r"far has another .*ck\.hpp than this machine") as found:
        taken(toolchain, tmp_path / "work", headers={"<rocm>/include/ck/ck.hpp": "0" * 64})
    assert found.value.machine == "far"
    with pytest.raises(UnfitWorkerError):
        taken(toolchain, tmp_path / "work", headers={"/usr/include/gone.h": "0" * 64})


def test_a_header_that_would_be_read_here_counts(toolchain: FakeToolchain, tmp_path: Path) -> None:
    (toolchain.roots["workspace"] / "ck").mkdir()
    packed = packed_of(toolchain)
    (toolchain.roots["workspace"] / "ck/ck.hpp").write_text("// comes first\n")
    folder = tmp_path / "work"
    folder.mkdir()
    with pytest.raises(FarmError, match=r"was not sent .*ws/ck/ck\.hpp") as found:
        unpack(packed, answer(toolchain), folder, ContentHashes(None))
    assert not isinstance(found.value, UnfitWorkerError)


@pytest.mark.parametrize("name", ["../kernel.so", "/tmp/kernel.so", "", ".", "a/b"])
def test_products_stay_in_their_folder(toolchain: FakeToolchain, tmp_path: Path, name: str) -> None:
    with pytest.raises(FarmError, match="sent a file called"):
        taken(toolchain, tmp_path / "work", products={ProductKind.SHARED_OBJECT: (name, b"so")})
    assert not (tmp_path / "kernel.so").exists()


def test_a_result_without_a_shared_object_is_none(toolchain: FakeToolchain, tmp_path: Path) -> None:
    with pytest.raises(FarmError, match="no shared object"):
        taken(toolchain, tmp_path / "work", products={})


@pytest.mark.parametrize(
    ("log", "why"),
    [
        ("kernel.hip:1:10:{1:10-1:17}: fatal error: 'cmath' file not found [Lexical or Preprocessor Issue]\n", "cmath"),
        ("ld.lld: error: cannot open crti.o: No such file or directory\n", "crti.o"),
        ("", "the compiler printed nothing"),
    ],
)
def test_what_a_machine_lacks_is_no_mistake_of_the_source(
    toolchain: FakeToolchain, tmp_path: Path, log: str, why: str
) -> None:
    with pytest.raises(FarmError, match=why):
        taken(toolchain, tmp_path / "work", ok=False, log=log, products={})


def test_a_mistake_of_the_source_is_one_here(toolchain: FakeToolchain, tmp_path: Path) -> None:
    log = "kernel.hip:1:1:{1:1-1:4}: error: use of undeclared identifier 'abc' [Semantic Issue]\n"
    outcome = taken(toolchain, tmp_path / "work", ok=False, log=log, products={})
    assert (outcome.status, outcome.log) == (CompileStatus.FAILED, log)


@pytest.mark.parametrize(
    ("fault", "unfit"),
    [(CompileFault.NO_SPACE, True), (CompileFault.HOST, True), (CompileFault.KILLED, False)],
)
def test_faults_say_whose_they_are(toolchain: FakeToolchain, tmp_path: Path, fault: CompileFault, unfit: bool) -> None:
    with pytest.raises(FarmError, match="far: it is so") as found:
        taken(toolchain, tmp_path / "work", fault=fault, message="it is so")
    assert isinstance(found.value, UnfitWorkerError) is unfit


def test_what_takes_too_long_takes_too_long_here(toolchain: FakeToolchain, tmp_path: Path) -> None:
    outcome = taken(toolchain, tmp_path / "work", fault=CompileFault.TIMED_OUT, message="600 s")
    assert (outcome.status, outcome.fault, outcome.message) == (
        CompileStatus.TRANSIENT,
        CompileFault.TIMED_OUT,
        "600 s",
    )


def test_a_toolchain_is_the_same_wherever_it_lies(toolchain: FakeToolchain, tmp_path: Path) -> None:
    contents = ContentHashes(None)
    moved = tmp_path / "elsewhere"
    toolchain.include_folders[0].rename(moved)
    other = replace(toolchain, include_folders=(moved,))
    known = toolchain_identity(other, contents)
    moved.rename(toolchain.include_folders[0])
    assert toolchain_identity(toolchain, contents) == known
    (toolchain.include_folders[0] / "aside.txt").touch()
    assert toolchain_identity(toolchain, contents) == known, "the folder may hold anything"
    (toolchain.include_folders[0] / "ck/new.hpp").touch()
    assert toolchain_identity(toolchain, contents) != known
    assert toolchain_identity(replace(other, identity="compiler 2"), contents) != known
