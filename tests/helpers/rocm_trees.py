"""ROCm trees that look real enough to be found: the compiler is a shell script that counts its calls."""

from __future__ import annotations

from pathlib import Path

from ckwatch.compile.toolchain.composable_kernel import (
    RELEASES,
    CkRelease,
    ComposableKernelSources,
    sources_folder,
)
from ckwatch.compile.toolchain.installations import LAYOUT, MANIFEST, InstalledPackage, ToolchainManifest

VERSION = "clang version 22.0.0\nTarget: x86_64\nInstalledDir: {folder}\n"


def make_program(path: Path, text: str = "exit 0") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def make_rocm(root: Path, version: str | None = None, *, llvm: str = "lib/llvm/bin", ck: bool = True) -> Path:
    """A ROCm tree in AMD's layout; the calls of clang are counted in `root/calls`."""
    make_program(root / "bin/hipcc")
    calls = f'echo call >> "{root}/calls"\n'
    text = "".join(f"echo '{line}'\n" for line in VERSION.format(folder=root / llvm).splitlines())
    for name in ("clang", "clang++", "ld.lld", "lld", "clang-offload-bundler", "llvm-readelf", "llvm-objdump"):
        make_program(root / llvm / name, calls + text)
    bitcode = root / "amdgcn/bitcode"
    bitcode.mkdir(parents=True)
    for name in ("ocml", "oclc_isa_version_942", "oclc_isa_version_90a"):
        (bitcode / f"{name}.bc").write_text(name)
    header = root / "include/hip/hip_runtime.h"
    header.parent.mkdir(parents=True)
    header.write_text("")
    numbers = ((version or "7.0.0") + ".0.0").split(".")
    names = ("MAJOR", "MINOR", "PATCH")
    defines = [f"#define HIP_VERSION_{name} {number}\n" for name, number in zip(names, numbers, strict=False)]
    header.with_name("hip_version.h").write_text("".join(defines))
    if version:
        (root / ".info").mkdir()
        (root / ".info/version").write_text(f"{version}-123\n")
    if ck:
        make_ck(root / "include")
    return root


def make_ck(include: Path, version: str = "1.1.0", *, tile: bool = True) -> Path:
    for name, text in (("ck.hpp", ""), ("config.h", ""), ("version.h", f"#define CK_VERSION {version}\n")):
        (include / "ck").mkdir(parents=True, exist_ok=True)
        (include / "ck" / name).write_text(text)
    if tile:
        (include / "ck_tile").mkdir(parents=True, exist_ok=True)
        (include / "ck_tile/core.hpp").write_text("")
    return include


def make_installed(
    folder: Path, name: str = "rocm-7.2.4-abcd", *, version: str = "7.2.4", ck: bool = True
) -> ToolchainManifest:
    """A toolchain as `install` leaves it, in a folder of toolchains."""
    root = folder / name
    make_rocm(root / "usr", ck=False)
    if ck:
        make_ck(root / "ck/include", "1.2.0", tile=False)
    packages = (InstalledPackage("hipcc", f"{version}-1", "aa"), InstalledPackage("clang-22", "22", "bb"))
    manifest = ToolchainManifest(LAYOUT, name, root, 22, version, "7.2.4", (), packages)
    (root / MANIFEST).write_text(manifest.to_json())
    return manifest


def make_sources(cache: Path, release: CkRelease = RELEASES[0]) -> ComposableKernelSources:
    """Create the files that `toolchain install ck` leaves in ckwatch's cache folder."""
    made = ComposableKernelSources(sources_folder(cache, release), release)
    make_ck(made.ck, release.ck_version, tile=False)
    (made.ck_tile / "ck_tile").mkdir(parents=True)
    (made.ck_tile / "ck_tile/core.hpp").write_text("")
    (made.python / "ck4inductor").mkdir(parents=True)
    return made
