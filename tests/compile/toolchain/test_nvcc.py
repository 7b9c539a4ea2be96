"""Finding nvcc and CUTLASS, and what the doctor says of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ckwatch.compile.toolchain.devices import DetectedDevice, native_arch
from ckwatch.compile.toolchain.doctor import CheckState, cuda_checks, examine
from ckwatch.compile.toolchain.model import FixedToolchainChoice
from ckwatch.compile.toolchain.nvcc import NvccToolchain, find_nvcc
from ckwatch.model.errors import ToolchainError
from ckwatch.model.targets import Language
from ckwatch.system.installation import command_for_packages
from helpers.rocm_trees import make_program

NVCC = """echo 'Cuda compilation tools, release {version}, V{version}.88'
echo 'Build cuda_{version}.r{version}/compiler.1'"""


def make_cuda(root: Path, version: str = "13.0") -> Path:
    make_program(root / "bin/nvcc", NVCC.format(version=version))
    return root


def find(tmp_path: Path, packages: Callable[[str], list[Path]] = lambda _name: [], **env: str) -> NvccToolchain:
    make_program(tmp_path / "host/g++", "echo 'g++ 12.2.0'")
    plain = {"HOME": str(tmp_path), "PATH": f"{tmp_path}/host"}
    return find_nvcc({**plain, **env}, usual=tmp_path / "usual", packages=packages)


def test_the_order_of_the_search(tmp_path: Path) -> None:
    usual = make_cuda(tmp_path / "usual", "12.0")
    on_path = make_cuda(tmp_path / "path ü", "12.8")
    named = make_cuda(tmp_path / "named", "13.0")
    assert find(tmp_path).nvcc == usual / "bin/nvcc"
    path = f"{on_path}/bin:{tmp_path}/host"
    assert find(tmp_path, PATH=path).nvcc == on_path / "bin/nvcc"
    found = find(tmp_path, PATH=path, CUDA_HOME=str(named))
    assert (found.nvcc, found.version, found.clang_version) == (named / "bin/nvcc", "13.0.88", "nvcc 13.0.88")
    assert find(tmp_path, PATH=path, CUDA_HOME=str(tmp_path / "nowhere")).nvcc == on_path / "bin/nvcc"


def test_the_package(tmp_path: Path) -> None:
    make_cuda(tmp_path / "site/nvidia/cu13")
    (tmp_path / "site/cutlass_library/source/include/cutlass").mkdir(parents=True)
    include = tmp_path / "site/cutlass_library/source/include"
    (include / "cutlass/cutlass.h").touch()
    (include / "cutlass/version.h").write_text(
        "#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 2\n#define CUTLASS_PATCH 0 \n"
    )
    folders = {"nvidia": tmp_path / "site/nvidia", "cutlass_library": tmp_path / "site/cutlass_library"}
    found = find(tmp_path, lambda name: [folders[name]])
    assert found.nvcc == tmp_path / "site/nvidia/cu13/bin/nvcc"
    assert found.include_folders == (include,)
    assert found.cutlass is not None
    assert found.cutlass.version == "4.2.0"


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError) as caught:
        find(tmp_path)
    assert "no CUDA compiler found" in caught.value.message
    assert "CUDA_HOME: not set" in caught.value.message
    assert "nvidia-cuda-nvcc" in (caught.value.hint or "")


def test_the_host_compiler(tmp_path: Path) -> None:
    make_cuda(tmp_path / "usual")
    before = find(tmp_path)
    make_program(tmp_path / "other/clang++", "echo 'clang 19'")
    chosen = find(tmp_path, NVCC_CCBIN=str(tmp_path / "other/clang++"), NVCC_APPEND_FLAGS="-O1")
    assert chosen.arguments == ("-ccbin", str(tmp_path / "other/clang++"))
    assert chosen.identity != before.identity
    assert not {"NVCC_CCBIN", "NVCC_APPEND_FLAGS"} & set(chosen.environment)
    with pytest.raises(ToolchainError, match=r"there is no /no/g\+\+"):
        find(tmp_path, NVCC_CCBIN="/no/g++")
    (tmp_path / "host/g++").unlink()
    with pytest.raises(ToolchainError, match=r"there is no g\+\+"):
        find_nvcc({"HOME": str(tmp_path), "PATH": f"{tmp_path}/host"}, usual=tmp_path / "usual")


def test_an_identity_is_that_of_the_programs(tmp_path: Path) -> None:
    first = find(tmp_path, CUDA_HOME=str(make_cuda(tmp_path / "a"))).identity
    assert first == find(tmp_path, CUDA_HOME=str(make_cuda(tmp_path / "b"))).identity
    assert first != find(tmp_path, CUDA_HOME=str(make_cuda(tmp_path / "c", "13.1"))).identity


H200 = DetectedDevice("cuda:0", "NVIDIA H200", "sm_90", "0000:c1:00.0")


async def test_the_doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckwatch.compile.toolchain.nvcc._package_folders", lambda _name: [])
    make_program(tmp_path / "host/g++", "echo 'g++ 12.2.0'")
    env = {"HOME": str(tmp_path), "PATH": f"{tmp_path}/host", "CUDA_HOME": str(make_cuda(tmp_path / "cuda"))}
    nvcc, cutlass, bindings = cuda_checks(env, [H200])
    assert nvcc.state is CheckState.OK
    assert nvcc.detail.startswith("nvcc 13.0.88, CUDA_HOME: ")
    assert (cutlass.state, cutlass.fix) == (CheckState.NOTE, command_for_packages("nvidia-cutlass"))
    assert bindings.name == "cuda-bindings"
    for archs, state in ((("gfx942",), CheckState.NOTE), (("sm_90a",), CheckState.MISSING)):
        report = await examine(FixedToolchainChoice(), env, archs=archs)
        checks = {check.name: check for check in report.checks}
        assert (checks["CUDA"].state, checks["CUTLASS"].state) == (CheckState.OK, state)


def test_native(tmp_path: Path) -> None:
    env = {"PATH": str(tmp_path)}
    for printed, arch in (("0, NVIDIA H200, 9.0, 0", "sm_90a"), ("0, NVIDIA L40S, 8.9, 0", "sm_89"), ("", "sm_90a")):
        make_program(tmp_path / "nvidia-smi", f"echo '{printed}'")
        assert native_arch(Language.CU, env) == arch
    assert native_arch(Language.HIP, env, kfd=tmp_path) is None
