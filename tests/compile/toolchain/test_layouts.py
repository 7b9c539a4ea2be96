"""Installations of ROCm as they are: found, described, and what would bring Composable Kernel.

The names of files are those of: AMD's packages of ROCm 7.2 and the ROCm Core SDK (its transition guide, and
build_tools/packaging/linux of ROCm/TheRock), the wheels (build_tools/packaging/python there), conda-forge's recipes of
hip and rocm-device-libs, Spack's packages hip and llvm-amdgpu, and Debian's packages of ROCm 7.2.4.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.doctor import CheckState, examine
from ckwatch.compile.toolchain.layouts import layout_of
from ckwatch.compile.toolchain.model import FixedToolchainChoice, Toolchain, ToolchainSource
from ckwatch.model.errors import ToolchainError
from helpers.rocm_trees import VERSION, make_ck, make_program

HIP = "include/hip/hip_runtime.h"
THEROCK = ("{0}/share/therock/therock_manifest.json", "{0}/.info/version", "{0}/lib/llvm/bin/", "{0}/bin/hipcc",
           "{0}/lib/llvm/amdgcn/bitcode/ocml.bc", "{0}/lib/libamdhip64.so", "{0}/" + HIP)  # fmt: skip
SITE = "venv/lib/python3.12/site-packages"
FILES = {
    "AMD's packages": (
        "opt/rocm-7.2.4/.info/version", "opt/rocm-7.2.4/bin/hipcc", "opt/rocm-7.2.4/lib/llvm/bin/",
        "opt/rocm-7.2.4/amdgcn/bitcode/ocml.bc", "opt/rocm-7.2.4/lib/libamdhip64.so", "opt/rocm-7.2.4/" + HIP,
        "opt/rocm -> ../etc/alternatives/rocm", "etc/alternatives/rocm -> ../../opt/rocm-7.2.4",
    ),
    "AMD's packages of the ROCm Core SDK": (
        *(file.format("opt/rocm/core-7.2.4") for file in THEROCK),
        "opt/rocm/core -> ../../etc/alternatives/core", "etc/alternatives/core -> ../../opt/rocm/core-7.2.4",
        "opt/rocm/bin -> core/bin", "opt/rocm/lib -> core/lib", "opt/rocm/include -> core/include",
    ),
    "TheRock's tarball": tuple(file.format("therock-dist-linux-gfx94X-dcgpu-7.2.4") for file in THEROCK),
    "rocm-sdk wheels": (
        *(file.format(f"{SITE}/_rocm_sdk_devel") for file in THEROCK),
        f"{SITE}/_rocm_sdk_core/bin/hipcc", f"{SITE}/_rocm_sdk_libraries_gfx94X_dcgpu/lib/librocblas.so.5",
        f"{SITE}/rocm_sdk/__init__.py", "venv/bin/hipcc",
    ),
    "Conda": (
        "conda/conda-meta/hip-7.2.4-0.json", "conda/bin/hipcc", "conda/bin/", "conda/lib/libamdhip64.so",
        "conda/lib/clang/20/lib/amdgcn/bitcode/ocml.bc", "conda/amdgcn -> lib/clang/20/lib/amdgcn", "conda/" + HIP,
        "conda/include/rocm-core/rocm_version.h",
    ),
    "Spack": (
        "spack/hip-7.2.4-f6pnvbq/.spack/spec.json", "spack/hip-7.2.4-f6pnvbq/bin/hipcc",
        "spack/hip-7.2.4-f6pnvbq/lib/libamdhip64.so", "spack/hip-7.2.4-f6pnvbq/" + HIP,
        "spack/llvm-amdgpu-7.2.4-x3qkz5a/bin/", "spack/llvm-amdgpu-7.2.4-x3qkz5a/amdgcn/bitcode/ocml.bc",
        "spack/llvm-amdgpu-6.4.0-aaaaaaa/bin/",
    ),
    "Debian's packages": (
        "usr/bin/hipcc", "usr/lib/llvm-22/bin/", "usr/lib/llvm-22/lib/clang/22/amdgcn/bitcode/ocml.bc",
        "usr/lib/x86_64-linux-gnu/libamdhip64.so", "usr/" + HIP, "usr/include/rocm-core/rocm_version.h",
        "usr/lib/llvm-21/bin/",
    ),
}  # fmt: skip
TEXTS = {
    ".info/version": "7.2.4-43\n",
    "rocm_version.h": "".join(f"#define ROCM_VERSION_{part}   {n}\n" for part, n in zip(("MAJOR", "MINOR", "PATCH"), "724", strict=True)),
}  # fmt: skip
CASES = {
    "AMD's packages": ("opt/rocm", ToolchainSource.SYSTEM, "the package composablekernel-dev"),
    "AMD's packages of the ROCm Core SDK": ("opt/rocm/core-7.2.4", ToolchainSource.SYSTEM, "the package amdrocm-ck"),
    "TheRock's tarball": ("therock-dist-linux-gfx94X-dcgpu-7.2.4", ToolchainSource.ENVIRONMENT, ""),
    "rocm-sdk wheels": (f"{SITE}/_rocm_sdk_devel", ToolchainSource.WHEELS, ""),
    "Conda": ("conda", ToolchainSource.PATH, ""),
    "Spack": ("spack/hip-7.2.4-f6pnvbq", ToolchainSource.PATH, "`spack install composable-kernel` and name its folder"),
    "Debian's packages": (
        "usr", ToolchainSource.PATH, "the package libcomposable-kernel-dev, where Debian has it",
    ),
}  # fmt: skip


def install(folder: Path, layout: str) -> None:
    """Make the files; a folder ending in `/` gets LLVM's programs."""
    for file in FILES[layout]:
        name, _, target = file.partition(" -> ")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if target:
            path.symlink_to(target)
        elif name.endswith("/"):
            for tool in ("clang", "clang++", "ld.lld", "lld", "clang-offload-bundler", "llvm-objdump"):
                make_program(path / tool, f"echo '{VERSION.splitlines()[0]}'")
        elif name.endswith("hipcc"):
            make_program(path)
        else:
            path.write_text(next((text for end, text in TEXTS.items() if name.endswith(end)), ""))


def environment(folder: Path, layout: str) -> dict[str, str]:
    """The variables of a shell in which the layout is used."""
    root = folder / CASES[layout][0]
    path = {ToolchainSource.PATH: f"{root}/bin:", ToolchainSource.WHEELS: f"{folder}/venv/bin:"}
    found = {"HOME": str(folder), "PATH": f"{path.get(CASES[layout][1], '')}/nowhere"}
    return found | ({"ROCM_PATH": str(root)} if CASES[layout][1] is ToolchainSource.ENVIRONMENT else {})


def find(folder: Path, layout: str) -> Toolchain:
    return discover(None, environment(folder, layout), opt=folder / "opt", python=str(folder / "python"))


@pytest.mark.parametrize("layout", FILES)
def test_each_layout_is_found_and_described(tmp_path: Path, layout: str) -> None:
    root, source, brings_ck = CASES[layout]
    install(tmp_path, layout)
    found = find(tmp_path, layout)
    assert (found.source, found.root) == (source, tmp_path / root)
    assert layout_of(found.root).title == layout
    assert layout_of(found.root).brings_ck == (brings_ck or "ckwatch toolchain install ck")
    assert found.rocm_version == "7.2.4"
    assert found.notes == ()
    assert found.clangxx.is_file()
    assert (found.device_libraries / "ocml.bc").is_file()
    assert found.hip_library is not None
    assert found.ck is None
    make_ck(found.root / "include")
    again = find(tmp_path, layout)
    assert again.ck is not None
    assert (again.ck.folder, again.ck.origin) == (found.root / "include", "ROCm")


async def test_the_doctor_says_what_brings_composable_kernel(tmp_path: Path) -> None:
    install(tmp_path, "AMD's packages of the ROCm Core SDK")
    choice = FixedToolchainChoice(rocm=tmp_path / "opt/rocm/core")
    report = await examine(choice, {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}, archs=())
    checks = {check.name: check for check in report.checks}
    assert checks["layout"].detail == "AMD's packages of the ROCm Core SDK"
    assert checks["CK"].state is CheckState.MISSING
    assert (checks["CK"].fix or "").startswith("the package amdrocm-ck, or ckwatch toolchain install ck, or name a")


def test_wheels_without_headers_say_what_brings_them(tmp_path: Path) -> None:
    install(tmp_path, "rocm-sdk wheels")
    (tmp_path / SITE / "_rocm_sdk_devel").rename(tmp_path / "moved")
    (tmp_path / "moved" / HIP).unlink()
    core = tmp_path / SITE / "_rocm_sdk_core"
    (core / "bin/hipcc").unlink()
    (core / "bin").rmdir()
    core.rmdir()
    (tmp_path / "moved").rename(core)
    with pytest.raises(ToolchainError, match=r"_rocm_sdk_core has no HIP headers .*extra `devel` of the package rocm"):
        find(tmp_path, "rocm-sdk wheels")


@pytest.mark.parametrize("variable", ["ROCM_PATH", "ROCM_HOME", "HIP_PATH"])
def test_the_folder_of_the_core_sdk_leads_to_it(tmp_path: Path, variable: str) -> None:
    install(tmp_path, "AMD's packages of the ROCm Core SDK")
    env = {"HOME": str(tmp_path), "PATH": "/nowhere", variable: str(tmp_path / "opt/rocm")}
    found = discover(None, env, opt=tmp_path / "nothing")
    assert (found.source.value, found.root) == (variable, tmp_path / "opt/rocm/core")


def test_a_virtual_environment_may_be_named(tmp_path: Path) -> None:
    install(tmp_path, "rocm-sdk wheels")
    found = discover(FixedToolchainChoice(rocm=tmp_path / "venv"), {"HOME": str(tmp_path), "PATH": "/nowhere"})
    assert found.root == tmp_path / SITE / "_rocm_sdk_devel"


def test_spack_says_where_its_llvm_is_whatever_its_folders_are_called(tmp_path: Path) -> None:
    install(tmp_path, "Spack")
    (tmp_path / "spack/hip-7.2.4-f6pnvbq").rename(tmp_path / "spack/gpu")
    llvm = tmp_path / "spack/llvm-amdgpu-7.2.4-x3qkz5a/bin"
    env = {"HOME": str(tmp_path), "PATH": f"{tmp_path}/spack/gpu/bin", "HIP_CLANG_PATH": str(llvm)}
    found = discover(None, env, opt=tmp_path / "opt", python=str(tmp_path / "python"))
    assert (found.root, found.clang, found.device_libraries) == (
        tmp_path / "spack/gpu", llvm / "clang", llvm.parent / "amdgcn/bitcode",
    )  # fmt: skip


@pytest.mark.parametrize(("file", "given"), [("share/hip/version", False), ("bin/.hipVersion", False), ("else", True)])
def test_clang_is_given_the_version_of_hip_that_it_cannot_read(tmp_path: Path, file: str, given: bool) -> None:
    install(tmp_path, "Conda")
    header = tmp_path / "conda/include/hip/hip_version.h"
    header.write_text("#define HIP_VERSION_MAJOR 7\n#define HIP_VERSION_MINOR 2\n#define HIP_VERSION_PATCH 9\n")
    path = tmp_path / "conda" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    assert ("--hip-version=7.2.9" in find(tmp_path, "Conda").hip_arguments) == given


def test_a_folder_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    install(tmp_path, "Conda")
    env = environment(tmp_path, "Conda") | {"ROCM_PATH": f"/{'x' * 300}"}
    found = discover(None, env, opt=tmp_path / "opt", python=str(tmp_path / "python"))
    assert found.root == tmp_path / "conda"
    assert found.notes[0].startswith(f"ROCM_PATH: /{'x' * 300}")


@pytest.mark.parametrize("name", ["rocm-7.2", "rocm-7.2.4"])
def test_versioned_folders_have_names(tmp_path: Path, name: str) -> None:
    install(tmp_path, "AMD's packages of the ROCm Core SDK")
    env = {"HOME": str(tmp_path), "PATH": "/nowhere"}
    found = discover(FixedToolchainChoice(rocm=Path(name)), env, opt=tmp_path / "opt")
    assert found.root == tmp_path / "opt/rocm/core-7.2.4"
