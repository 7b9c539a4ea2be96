"""Files taken out of packages, their places, and files that are refused."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from ckwatch.compile.toolchain.unpack import extract, is_kept, place_of, unpack_deb, unpack_sources
from ckwatch.model.errors import ToolchainError
from helpers.each_row import each_row

needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg on this system")


@each_row(
    ("path", "kept"),
    [
        ("usr/bin/hipcc", True),
        ("usr/bin/clang++-22", False),
        ("usr/lib/llvm-22/bin/clang", True),
        ("usr/lib/llvm-22/bin/clang-22", True),
        ("usr/lib/llvm-22/bin/clang-offload-bundler", True),
        ("usr/lib/llvm-22/bin/llvm-mca", True),
        ("usr/lib/llvm-22/bin/llvm-exegesis", False),
        ("usr/lib/llvm-22/bin/clang-tidy", False),
        ("usr/lib/llvm-22/lib/clang/22/include/omp.h", True),
        ("usr/lib/llvm-22/lib/clang/22/amdgcn/bitcode/ocml.bc", True),
        ("usr/lib/llvm-22/lib/clang/22/lib/linux/libclang_rt.builtins-x86_64.a", True),
        ("usr/lib/llvm-22/lib/clang/22/lib/linux/libclang_rt.asan-x86_64.a", False),
        ("usr/lib/x86_64-linux-gnu/libLLVM.so.22.1", True),
        ("usr/lib/x86_64-linux-gnu/libz3.so.4", True),
        ("usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", True),
        ("usr/lib64/ld-linux-x86-64.so.2", True),
        ("usr/lib/x86_64-linux-gnu/gconv/UTF-16.so", False),
        ("usr/lib/x86_64-linux-gnu/libdevice_gemm_operations.a", False),
        ("usr/include/ck/ck.hpp", True),
        ("usr/include/hip/hip_runtime.h", True),
        ("usr/include/stdio.h", False),
        ("usr/share/doc/hipcc/changelog.gz", False),
        ("usr/share/doc/hipcc/copyright", True),
        ("usr/lib/python3/x.so", False),
        ("etc/ld.so.conf.d/x.conf", False),
    ],
)
def test_what_is_kept(path: str, kept: bool) -> None:
    assert is_kept(path) is kept


def test_ck_gets_a_folder_of_its_own() -> None:
    assert place_of("usr/include/ck/ck.hpp") == "ck/include/ck/ck.hpp"
    assert place_of("usr/include/hip/hip_runtime.h") == "usr/include/hip/hip_runtime.h"


def test_files_outside_of_usr_lie_in_it() -> None:
    assert place_of("lib/x86_64-linux-gnu/libc.so.6") == "usr/lib/x86_64-linux-gnu/libc.so.6"
    assert place_of("lib64/ld-linux-x86-64.so.2") == "usr/lib64/ld-linux-x86-64.so.2"


def make_deb(folder: Path, files: dict[str, str | None]) -> Path:
    tree = folder / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n"
    )
    for name, text in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is not None and text.startswith("-> "):
            path.symlink_to(text.removeprefix("-> "))
        else:
            path.write_text(text or "")
            path.chmod(0o755 if text and text.startswith("#!") else 0o644)
    subprocess.run(
        ["dpkg-deb", "--build", "--root-owner-group", tree, folder / "x.deb"], check=True, capture_output=True
    )
    return folder / "x.deb"


@needs_dpkg
def test_a_package_is_unpacked_without_the_rest(tmp_path: Path) -> None:
    deb = make_deb(
        tmp_path,
        {
            "usr/bin/hipcc": "#!",
            "usr/bin/python3": "no",
            "usr/include/ck/ck.hpp": "ck",
            "usr/lib/x86_64-linux-gnu/liba.so": "-> liba.so.1",
            "usr/lib/x86_64-linux-gnu/liba.so.1": "lib",
            "usr/lib/x86_64-linux-gnu/libabs.so": "-> /usr/lib/x86_64-linux-gnu/liba.so.1",
        },
    )
    out = tmp_path / "out"
    size = unpack_deb(deb, out)
    files = {str(path.relative_to(out)) for path in out.rglob("*") if not path.is_dir()}
    lib = "usr/lib/x86_64-linux-gnu"
    assert files == {"usr/bin/hipcc", "ck/include/ck/ck.hpp", f"{lib}/liba.so", f"{lib}/liba.so.1", f"{lib}/libabs.so"}
    assert size == 7
    for link in ("liba.so", "libabs.so"):
        assert (out / lib / link).resolve() == out / lib / "liba.so.1"


@needs_dpkg
def test_reading_stops_before_the_static_libraries(tmp_path: Path) -> None:
    deb = make_deb(
        tmp_path, {"usr/include/ck/ck.hpp": "ck", "usr/lib/x/libdevice_ops.a": "a", "usr/lib/x/libz.so": "z"}
    )
    seen: list[int] = []
    unpack_deb(deb, tmp_path / "out", checkpoint=lambda: seen.append(1))
    assert (tmp_path / "out/ck/include/ck/ck.hpp").read_text() == "ck"
    assert not (tmp_path / "out/usr/lib").exists()


@needs_dpkg
@pytest.mark.parametrize("cut", [0, 10, -40])
def test_a_damaged_package_is_reported(tmp_path: Path, cut: int) -> None:
    deb = make_deb(tmp_path, {f"usr/include/ck/{index}.hpp": str(index) * 999 for index in range(50)})
    deb.write_bytes(deb.read_bytes()[:cut] if cut else b"")
    with pytest.raises(ToolchainError, match=r"x\.deb"):
        unpack_deb(deb, tmp_path / "out")


@needs_dpkg
def test_it_stops_when_it_is_told_to(tmp_path: Path) -> None:
    deb = make_deb(tmp_path, {"usr/include/ck/ck.hpp": "ck"})

    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        unpack_deb(deb, tmp_path / "out", checkpoint=stop)


def test_files_of_a_source_distribution(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
        for name in ("p-1/a/core.hpp", "p-1/b/ck.hpp", "p-1/setup.py"):
            member = tarfile.TarInfo(name)
            member.size = 2
            archive.addfile(member, io.BytesIO(b"hi"))
    places = {"a/core.hpp": "x/core.hpp", "setup.py": None}
    assert unpack_sources(tmp_path / "x.tar.gz", places.get, tmp_path / "out") == 2
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == [tmp_path / "out/x/core.hpp"]
    (tmp_path / "x.tar.gz").write_bytes(b"no archive")
    with pytest.raises(ToolchainError, match="damaged"):
        unpack_sources(tmp_path / "x.tar.gz", places.get, tmp_path / "out")


@pytest.mark.parametrize("path", ["../x", "/etc/x", "usr/../../x"])
def test_nothing_is_written_outside(tmp_path: Path, path: str) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo("x")
        archive.addfile(member)
    buffer.seek(0)
    with tarfile.open(fileobj=buffer) as archive, pytest.raises(ToolchainError, match="outside"):
        extract(archive, archive.getmembers()[0], path, tmp_path)
