"""Files taken out of Composable Kernel's source distribution, and their places."""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path

import pytest

from ckwatch.compile.toolchain.composable_kernel import (
    RELEASES,
    CkRelease,
    configured,
    find_sources,
    sources_folder,
    unpack,
)
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.installations import cache_folder
from ckwatch.model.errors import ToolchainError

_CK = "amd_aiter-1/aiter_meta/3rdparty/composable_kernel"
_LIBRARY = f"{_CK}/library/src/tensor_operation_instance/gpu"
FILES = {
    f"{_CK}/LICENSE": "MIT",
    f"{_CK}/include/ck/ck.hpp": "ck",
    f"{_CK}/include/ck/README.md": "left out",
    f"{_CK}/include/ck/config.h.in": "#cmakedefine CK_ENABLE_FP8 @CK_ENABLE_FP8@\n#cmakedefine CK_USE_GFX94 @CK_USE_GFX94@\n",
    f"{_CK}/include/ck/version.h.in": "#define CK_VERSION @CMAKE_PROJECT_VERSION@\n",
    f"{_CK}/include/ck_tile/core.hpp": "tile",
    f"{_CK}/python/ck4inductor/util.py": "import os",
    f"{_LIBRARY}/gemm_universal/a.hpp": "a",
    f"{_LIBRARY}/gemm_universal/a.cpp": "left out",
    f"{_LIBRARY}/gemm_universal_batched/b.hpp": "b",
    f"{_LIBRARY}/gemm/c.hpp": "left out",
    f"{_CK}/library/include/ck/library/tensor_operation_instance/gpu/grouped_conv_fwd/d.hpp": "d",
    "amd_aiter-1/csrc/x.hpp": "left out",
}


def make_archive(path: Path, files: dict[str, str] = FILES) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def test_only_what_is_needed_is_unpacked(tmp_path: Path) -> None:
    sources_folder(tmp_path).parent.mkdir()
    assert find_sources(tmp_path) is None
    made = unpack(make_archive(tmp_path / "x.tar.gz"), tmp_path)
    assert find_sources(tmp_path) == made
    found = {str(path.relative_to(made.root)): path.read_text() for path in made.root.rglob("*") if path.is_file()}
    library = "python/ck4inductor/library"
    instances = "tensor_operation_instance/gpu"
    assert found == {
        "LICENSE": "MIT",
        "ck/include/ck/ck.hpp": "ck",
        "ck/include/ck/config.h.in": FILES[f"{_CK}/include/ck/config.h.in"],
        "ck/include/ck/config.h": "#define CK_ENABLE_FP8 ON\n/* #undef CK_USE_GFX94 */\n",
        "ck/include/ck/version.h.in": FILES[f"{_CK}/include/ck/version.h.in"],
        "ck/include/ck/version.h": "#define CK_VERSION 1.2.0\n",
        "ck_tile/include/ck_tile/core.hpp": "tile",
        "python/ck4inductor/util.py": "import os",
        f"{library}/src/{instances}/gemm_universal/a.hpp": "a",
        f"{library}/src/{instances}/gemm_universal_batched/b.hpp": "b",
        f"{library}/include/ck/library/{instances}/grouped_conv_fwd/d.hpp": "d",
    }
    assert (made.ck / "ck/ck.hpp").is_file()
    assert (made.ck_tile / "ck_tile/core.hpp").is_file()


def test_a_half_unpacked_one_is_never_found(tmp_path: Path) -> None:
    folder = sources_folder(tmp_path).parent
    folder.mkdir()
    archive = make_archive(tmp_path / "x.tar.gz")
    (tmp_path / "half.tar.gz").write_bytes(archive.read_bytes()[:-60])
    with pytest.raises(ToolchainError, match="damaged"):
        unpack(tmp_path / "half.tar.gz", tmp_path)
    assert list(folder.iterdir()) == []
    (folder / ".work-killed").mkdir()
    unpack(archive, tmp_path)
    unpack(archive, tmp_path)
    assert [path.name for path in folder.iterdir()] == [sources_folder(tmp_path).name]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("#cmakedefine A", "#define A"),
        ("#cmakedefine A @A@", "#define A 1"),
        ("#cmakedefine NONE @NONE@", "/* #undef NONE */"),
        ("#cmakedefine EMPTY", "/* #undef EMPTY */"),
        ('#define X "@A@" @EMPTY@@NONE@', '#define X "1" '),
        ("#if defined(A) // a@b", "#if defined(A) // a@b"),
    ],
)
def test_headers_that_cmake_would_write(template: str, expected: str) -> None:
    assert configured(f"{template}\n", {"A": "1", "EMPTY": ""}) == f"{expected}\n"


@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("release", "counts"), [(RELEASES[0], (5304, 904, 2248)), (RELEASES[1], (4672, 904, 1576))], ids=("1.2.0", "1.1.0")
)
def test_the_instance_lists_that_inductor_reads(
    monkeypatch: pytest.MonkeyPatch, release: CkRelease, counts: tuple[int, int, int]
) -> None:
    found = find_sources(cache_folder(), release)
    if found is None:
        pytest.skip(f"`ckwatch toolchain install --ck {release.ck_version}` did not run")
    monkeypatch.syspath_prepend(str(found.python))
    from ck4inductor.batched_universal_gemm.gen_instances import gen_ops_library as batched  # type: ignore[import-not-found]
    from ck4inductor.grouped_conv_fwd.gen_instances import gen_conv_ops_library as convolutions  # type: ignore[import-not-found]
    from ck4inductor.universal_gemm.gen_instances import gen_ops_library as universal  # type: ignore[import-not-found]

    assert (len(universal()), len(batched()), len(convolutions())) == counts
    for name in [name for name in sys.modules if name.startswith("ck4inductor")]:
        del sys.modules[name]
    toolchain = discover()
    if release == RELEASES[0] and toolchain.ck is not None and toolchain.ck.folder != found.ck:  # from Debian
        for path in found.ck.rglob("*.h*"):
            own = toolchain.ck.folder / path.relative_to(found.ck)
            assert path.suffix == ".in" or own.read_bytes() == path.read_bytes(), own
