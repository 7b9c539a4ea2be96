"""Which archs a kernel has, by its language, the workspace and its own file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.model.targets import (
    ARCHS,
    CUDA_ARCH,
    Language,
    arch_has_language,
    default_archs,
    not_compiled,
    unknown_arch,
)
from helpers.workspaces import KERNEL, TEMPLATE, workspace

CUDA = KERNEL.replace("t.hip.j2", "t.cu.j2")


@pytest.mark.parametrize(
    ("archs", "hip", "cuda"),
    [
        (["gfx942"], ("gfx942",), ("native",)),
        (["gfx942", "sm_90a", "gfx950"], ("gfx942", "gfx950"), ("sm_90a",)),
        (["sm_80", "sm_80"], ("native",), ("sm_80",)),
        (["native"], ("native",), ("native",)),
    ],
)
def test_archs_of_the_workspace(tmp_path: Path, archs: list[str], hip: tuple[str, ...], cuda: tuple[str, ...]) -> None:
    files = {
        "ckwatch.toml": f"[workspace]\narchs = {archs}\n",
        "templates/t.cu.j2": TEMPLATE,
        "cuda.kernel.toml": CUDA,
        "hip.kernel.toml": KERNEL,
    }
    found = {kernel.name: kernel.archs for kernel in workspace(tmp_path, files).kernels}
    assert found == {"cuda": cuda, "hip": hip}
    assert default_archs(archs, Language.CPP) == ("host",)


@pytest.mark.parametrize(
    ("kernel", "arch", "message"),
    [
        (CUDA, "gfx942", "a *.cu.j2 template is compiled for an NVIDIA arch, such as sm_90a, or `native`"),
        (KERNEL, "sm_90a", "a *.hip.j2 template is compiled for an AMD arch, such as gfx942, or `native`"),
        (CUDA, "host", "`host` needs a *.cpp.j2 template"),
    ],
)
def test_an_arch_of_another_language(tmp_path: Path, kernel: str, arch: str, message: str) -> None:
    files = {"templates/t.cu.j2": TEMPLATE, "k.kernel.toml": f'archs = ["{arch}"]\n{kernel}'}
    (found,) = workspace(tmp_path, files).diagnostics
    assert found.code == "kernel-file/arch-mismatch"
    assert message in found.message


def test_names() -> None:
    assert all(arch_has_language(arch, Language.HIP) != arch_has_language(arch, Language.CU) for arch in ARCHS)
    assert arch_has_language(CUDA_ARCH, Language.CU)
    assert unknown_arch("sm_100f") is None
    for arch in ("gfx1250", "gfx12-5-generic", "gfx1153", "gfx1372", "gfx1260:xnack+"):
        assert unknown_arch(arch) is None  # the compiler says whether it has it
    for arch in ("gfx94", "gfx9999", "gfx12-5", "GFX942"):
        assert unknown_arch(arch) == (f"unknown arch `{arch}`", arch)
    assert unknown_arch("sm_90f") == ("unknown arch `sm_90f`", "sm_90f")
    assert unknown_arch("sm_90a:xnack+") == ("unknown target feature `:xnack+` of sm_90a; it has: none", "xnack+")


@pytest.mark.parametrize(
    ("arch", "sentence"),
    [
        ("gfx1251", "this clang does not compile for gfx1251; clang 22 and later know gfx1251"),
        ("gfx950", "this clang does not compile for gfx950; clang 21 and later know gfx950"),
        (
            "gfx1100:xnack+",
            "this clang does not compile for gfx1100 with these features (:xnack+); clang 17 and later know gfx1100",
        ),
        (
            "gfx943",
            "this clang does not compile for gfx943, and neither does any other up to 23; did you mean gfx942?",
        ),
    ],
)
def test_a_clang_that_refuses_an_arch(arch: str, sentence: str) -> None:
    assert not_compiled(arch) == sentence
