"""The report on the environment: what it finds, what it calls missing, and the exit status."""

from __future__ import annotations

import json
import re
import shutil
from argparse import Namespace
from pathlib import Path

import pytest

from ckwatch.cli import main
from ckwatch.cli.output import to_plain
from ckwatch.cli.toolchain import environment_of, list_installed, remove
from ckwatch.compile.toolchain.composable_kernel import RELEASES
from ckwatch.compile.toolchain.devices import amd_devices, cpu_device, gfx_name, nvidia_devices
from ckwatch.compile.toolchain.doctor import CheckState, examine
from ckwatch.compile.toolchain.installations import toolchains_folder
from ckwatch.compile.toolchain.model import FixedToolchainChoice
from ckwatch.model.errors import ToolchainError
from ckwatch.workspace.trust import trust
from helpers.rocm_trees import make_installed, make_program, make_rocm, make_sources

CLANG = """case "$*" in
*--print-supported-cpus*) printf '\\tgfx90a\\n\\tgfx942\\n\\tgfx1100\\n\\tsm_90\\n' >&2;;
*-v) echo 'Selected GCC installation: /usr/lib/gcc/x86_64-linux-gnu/13' >&2;;
*--version*) echo 'clang version 22.0.0';;
*) exit {status};;
esac"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without toolchains, and no ROCm on the machine that a command could find."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("ROCM_PATH", raising=False)
    monkeypatch.chdir(tmp_path)
    if list(Path("/opt").glob("rocm*")) or shutil.which("hipcc", path="/usr/bin:/bin"):
        pytest.skip("this machine has a ROCm of its own")
    return tmp_path


def make_tree(root: Path, *, status: int = 0, ck: bool = True) -> Path:
    make_rocm(root, "7.2.0", ck=ck)
    for name in ("clang", "clang++"):
        make_program(root / "lib/llvm/bin" / name, CLANG.format(status=status))
    return root


async def states(root: Path, home: Path, **options: tuple[str, ...]) -> dict[str, tuple[CheckState, str, str | None]]:
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    report = await examine(FixedToolchainChoice(rocm=root), env, **options)  # type: ignore[arg-type]
    return {check.name: (check.state, check.detail, check.fix) for check in report.checks}


async def test_all_that_is_needed_is_there(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "rocm")
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    report = await examine(FixedToolchainChoice(rocm=root), env)
    assert report.ok
    assert report.archs == ("gfx90a", "gfx942")  # gfx1100 has no device library here
    data = json.loads(json.dumps(environment_of(report), default=to_plain))
    assert data["ok"] is True
    assert data["toolchain"]["rocm"] == "7.2.0"
    assert data["toolchain"]["ck"]["version"] == "1.1.0"
    assert data["devices"][-1]["name"] == "cpu"


async def test_what_is_missing_and_what_mends_it(tmp_path: Path) -> None:
    found = await states(make_tree(tmp_path / "a", ck=False), tmp_path)
    for name, setting in (("CK", "`ck`"), ("ck_tile", "`ck_tile`")):
        state, detail, fix = found[name]
        assert (state, detail) == (CheckState.MISSING, f"no headers in ROCm 7.2.0 at {tmp_path / 'a'}")
        assert (fix or "").startswith("the package composablekernel-dev, or ckwatch toolchain install ck, or name ")
        assert f"{setting} in [toolchain] of ckwatch.toml" in (fix or "")
    assert found["ck4inductor"] == (CheckState.NOTE, "no instance lists found", "ckwatch toolchain install ck")

    sources = make_sources(tmp_path / ".cache/ckwatch")
    found = await states(tmp_path / "a", tmp_path)
    for name, folder in (("CK", sources.ck), ("ck_tile", sources.ck_tile), ("ck4inductor", sources.python)):
        assert found[name] == (CheckState.OK, f"1.2.0, {RELEASES[0].origin}: {folder}", None)

    found = await states(make_tree(tmp_path / "b", status=1), tmp_path)
    assert found["host C++"] == (
        CheckState.MISSING,
        "clang uses GCC 13; its C++ headers are missing",
        "apt-get install g++ libstdc++-13-dev",
    )

    found = await states(make_tree(tmp_path / "c"), tmp_path, archs=("gfx942", "gfx1100", "native"))
    assert found["gfx942"][0] is CheckState.OK
    assert found["gfx1100"][0] is CheckState.MISSING
    assert "native" not in found


async def test_clangd(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "rocm")
    env = {"HOME": str(tmp_path), "PATH": f"{tmp_path}/bin:/usr/bin:/bin"}

    async def said(clangd: Path | None = None) -> tuple[CheckState, str, str | None]:
        report = await examine(FixedToolchainChoice(rocm=root, clangd=clangd), env)
        (check,) = [check for check in report.checks if check.name == "clangd"]
        return check.state, check.detail, check.fix

    if shutil.which("clangd", path="/usr/bin:/bin") is None and shutil.which("apt-get") is not None:
        detail = "no clangd 22 here; it is fetched when first needed"
        assert await said() == (CheckState.NOTE, detail, "ckwatch toolchain install --clangd")
    made = make_program(tmp_path / "bin/clangd-22", "echo 'clangd version 22.1.8'")
    assert await said() == (CheckState.OK, f"clangd version 22.1.8: {made}", None)
    broken = make_program(tmp_path / "broken", "exit 1")
    state, detail, fix = await said(broken)
    assert (state, detail.startswith(f"[toolchain] clangd = {broken}: ")) == (CheckState.NOTE, True)
    assert "leave the setting out" in (fix or "")


async def test_clang_headers(tmp_path: Path) -> None:
    rocm = make_tree(tmp_path / "rocm")
    state, detail, fix = (await states(rocm, tmp_path))["clang headers"]
    assert (state, "precompiled headers alone" in detail) == (CheckState.NOTE, True)
    assert fix == "Install LLVM's development files of this ROCm."


async def test_clangd_where_nothing_can_be_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rocm = make_tree(tmp_path / "rocm")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    found = await states(rocm, tmp_path)
    if found["clangd"][0] is not CheckState.OK:
        own = "Install clangd 22 and put it on PATH, or name it: `clangd` in [toolchain] of ckwatch.toml."
        state, detail, fix = found["clangd"]
        assert (state, detail.startswith("this system has no apt-get and no "), fix) == (CheckState.NOTE, True, own)


async def test_without_a_compiler_the_report_is_still_one(home: Path) -> None:
    report = await examine(None, {"HOME": str(home), "PATH": "/usr/bin:/bin"})
    assert not report.ok
    assert report.checks[0].name == "compiler"
    assert "ckwatch toolchain install" in (report.checks[0].fix or "")


def test_the_command_and_its_status(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 2
    assert "Some requirements are missing." in capsys.readouterr().out
    assert main(["doctor", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["toolchain"] is None
    assert main(["doctor", "--json", "--quiet"]) == 2
    assert capsys.readouterr().out == ""


def test_the_workspace_here_says_what_is_needed(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_tree(home / "rocm")
    folder = home / "ws/kernels"
    folder.mkdir(parents=True)
    (home / "ws/ckwatch.toml").write_text(f'[toolchain]\nrocm = "{root}"\n')
    monkeypatch.setenv("CKWATCH_TRUST_FILE", str(home / "trusted"))
    monkeypatch.chdir(folder)
    assert main(["doctor", "--json"]) == 2
    captured = capsys.readouterr()
    assert json.loads(captured.out)["toolchain"] is None
    assert "is not trusted" in captured.err
    trust(home / "ws")
    for arguments in ([], ["-C", "."], ["-C", str(home / "ws")]):
        main(["doctor", "--json", *arguments])
        assert json.loads(capsys.readouterr().out)["toolchain"]["root"] == str(root)


def test_listing_and_removing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert list_installed(Namespace()) == 0
    assert capsys.readouterr().out == ""
    folder = toolchains_folder({"XDG_CACHE_HOME": str(home / "cache")})
    first, second = make_installed(folder, "rocm-1"), make_installed(folder, "rocm-2")
    list_installed(Namespace())
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("* ")
    for name in ("rocm-3", "..", ".", "", "current", "../x", "/"):
        with pytest.raises(ToolchainError, match="is installed"):
            remove(Namespace(name=name))
    remove(Namespace(name=first.name))
    list_installed(Namespace())
    assert capsys.readouterr().out == f"* rocm-2  CK 7.2.4, clang 22  {second.root}\n"
    remove(Namespace(name=second.name))
    assert not (folder / "current").is_symlink()
    make_installed(folder, "rocm-6.4.3-0123abcd", version="6.4.3")
    for release in RELEASES:
        make_sources(home / "cache/ckwatch", release)
    remove(Namespace(name="rocm-6.4.3"))
    remove(Namespace(name="ck-1.2.0"))
    list_installed(Namespace())
    assert re.fullmatch(r"  ck-1\.1\.0  xformers 0\.0\.35\.dev1120  \S+\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("version", "name"),
    [(90402, "gfx942"), (90010, "gfx90a"), (90500, "gfx950"), (110000, "gfx1100"), (90008, "gfx908")],
)
def test_names_of_archs(version: int, name: str) -> None:
    assert gfx_name(version) == name


def test_amd_devices_of_the_kernel(tmp_path: Path) -> None:
    nodes = {
        "0": "cpu_cores_count 64\nsimd_count 0\n",
        "10": "simd_count 440\nsimd_per_cu 4\ngfx_target_version 90010\nlocation_id 49920\ndomain 1\n",
        "2": "simd_count 1216\nsimd_per_cu 4\ngfx_target_version 90402\nlocation_id 1280\ndomain 0\n",
        "x": "simd_count 4\n",
    }
    for name, text in nodes.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "properties").write_text(text)
    (tmp_path / "3").mkdir()  # unreadable: belongs to another container
    assert [(found.name, found.description, found.pci) for found in amd_devices(tmp_path)] == [
        ("hip:0", "AMD gfx942, 304 CU", "0000:05:00.0"),
        ("hip:1", "AMD gfx90a, 110 CU", "0001:c3:00.0"),
    ]
    assert amd_devices(tmp_path / "none") == ()


def test_nvidia_devices(tmp_path: Path) -> None:
    make_program(tmp_path / "nvidia-smi", "echo '0, NVIDIA H200, 9.0, 00000000:1B:00.0'; echo broken")
    (found,) = nvidia_devices({"PATH": f"{tmp_path}:/bin"})
    assert (found.name, found.description, found.arch, found.pci) == ("cuda:0", "NVIDIA H200", "sm_90", "0000:1b:00.0")
    make_program(tmp_path / "nvidia-smi", "echo no driver; exit 9")
    assert nvidia_devices({"PATH": f"{tmp_path}:/bin"}) == ()
    assert nvidia_devices({"PATH": str(tmp_path / "none")}) == ()


def test_the_cpu(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor: 0\nmodel name\t: A Fast One\n")
    assert cpu_device(tmp_path / "cpuinfo").description.startswith("A Fast One, ")
    assert cpu_device(tmp_path / "none").name == "cpu"
