"""Profiles from devices: what is asked of a profiler, and what of its files is kept. The profilers are mocks, programs
that write what rocprofv3 and ncu would; no test needs a GPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benches.daemon_bench import build, following
from benches.isa_bench import UNIT, IsaBench
from ckwatch.bench.report import Devices
from ckwatch.codeobject.tools import profilers
from ckwatch.core.events import MAIN
from ckwatch.engine.answers import Daemon
from ckwatch.model.errors import CkwatchError
from ckwatch.model.gpu_specs import DeviceFacts
from engine.queries.test_profiles import CountingEmulator

MI300X = DeviceFacts(name="hip:0", description="AMD Instinct MI300X", arch="gfx942:sramecc+:xnack-", pci="0000:c1:00.0")
SHAPE = "M=64,N=64,K=64"

MOCK = f"""#!{sys.executable}
# A mock of rocprofv3: it runs nothing, and writes what rocprofv3 would.
import json, pathlib, sys
here = pathlib.Path(__file__)
arguments = sys.argv[1:]
here.with_name("asked.json").write_text(json.dumps(arguments))
problem = here.with_name("problem")
if problem.exists() and problem.read_text():
    sys.exit(problem.read_text())
work = pathlib.Path(arguments[-1])
(work / "result.json").write_text(here.with_name("result.json").read_text())
output = pathlib.Path(arguments[arguments.index("--output-directory") + 1]) / "host"
output.mkdir(parents=True)
(output / "profile_results.json").write_text(here.with_name("profile.json").read_text())
"""


def samples(*instructions: tuple[str, str]) -> str:
    """A file of rocprofv3's with a sample of each instruction and comment."""
    texts, comments = zip(*instructions, strict=True)
    record = {"exec_mask": 3, "wave_issued": 1}
    return json.dumps(
        {
            "rocprofiler-sdk-tool": [
                {
                    "buffer_records": {
                        "pc_sample_stochastic": [{"inst_index": at, "record": record} for at in range(len(texts))]
                    },
                    "strings": {"pc_sample_instructions": texts, "pc_sample_comments": comments},
                }
            ]
        }
    )


@pytest.fixture
def bench(tmp_path: Path) -> IsaBench:
    made = IsaBench(tmp_path)
    made.emulator = CountingEmulator()
    return made


@pytest.fixture
def rocprofv3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a mock of rocprofv3, which is on PATH."""
    folder = tmp_path / "mock"
    folder.mkdir()
    (folder / "rocprofv3").write_text(MOCK)
    (folder / "rocprofv3").chmod(0o755)
    (folder / "result.json").write_text('{"launches": 3}')
    (folder / "profile.json").write_text(samples(("s_nop 0", "./kernel.hip:3"), ("s_endpgm", "/other.h:7")))
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


async def opened(daemon: Daemon, monkeypatch: pytest.MonkeyPatch, *devices: DeviceFacts) -> None:
    """The unit is built, and these devices are there."""

    async def found() -> Devices:
        return Devices(devices=devices)

    monkeypatch.setattr(daemon.device_profiles._measure, "devices", found)
    await build(daemon, UNIT)


async def test_a_unit_is_sampled_and_its_lines_are_the_templates(
    bench: IsaBench, rocprofv3: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench.open() as daemon:
        await opened(daemon, monkeypatch, MI300X)
        found = await daemon.device_profiles.take(MAIN, UNIT, "hip:0", SHAPE)
        assert (found.source, found.device) == ("rocprofv3, hip:0", "AMD Instinct MI300X")
        assert (found.method, found.total, found.shape_name) == ("PC sampling, stochastic", 2, SHAPE)
        template = str(bench.root / "templates/k.hip.j2")
        assert sorted((line.path, line.line) for line in found.lines) == [("/other.h", 6), (template, 1)]
        asked = json.loads((rocprofv3 / "asked.json").read_text())
        assert asked[1:3] == ["--pc-sampling-method", "stochastic"]
        assert asked[asked.index("--") + 1 :][:4] == [sys.executable, "-P", "-m", "ckwatch.bench.profiled_launch"]
        kept = await daemon.profiles.profile(MAIN, UNIT, None, lines=False)
        assert kept.on_device == found
    async with bench.open() as daemon:
        await build(daemon, UNIT)
        assert (await daemon.profiles.profile(MAIN, UNIT, None, lines=False)).on_device == found


NOT_THERE = (
    "E20260318 05:11:12.8 140 tool.cpp:2005] Given PC sampling configuration is not supported on any of the agents"
)


FAILURES = [
    (NOT_THERE, "", "the driver or the GPU refuses PC sampling: Given PC sampling configuration is not supported"),
    ("no such agent", "", "rocprofv3 ended before the kernel was launched"),
    ("", '{"failure": {"kind": "crashed", "message": "it hangs"}}', "the launch under rocprofv3 failed: it hangs"),
    ("", '{"launches": 1}', "is not a profile: it has no samples"),
]


async def test_a_profiler_that_fails_says_why(
    bench: IsaBench, rocprofv3: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (rocprofv3 / "profile.json").write_text('{"rocprofiler-sdk-tool": []}')
    async with bench.open() as daemon:
        await opened(daemon, monkeypatch, MI300X)
        for problem, result, why in FAILURES:
            (rocprofv3 / "problem").write_text(problem)
            (rocprofv3 / "result.json").write_text(result)
            with pytest.raises(CkwatchError, match=why):
                await daemon.device_profiles.take(MAIN, UNIT, "hip:0", SHAPE)


async def test_what_is_missing_is_named(bench: IsaBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    async with bench.open() as daemon:
        with pytest.raises(CkwatchError, match="is not built"):
            await daemon.device_profiles.take(MAIN, UNIT, "hip:0", SHAPE)
        await opened(daemon, monkeypatch, MI300X)
        with pytest.raises(CkwatchError, match="there is no device hip:3; there are hip:0"):
            await daemon.device_profiles.take(MAIN, UNIT, "hip:3", SHAPE)
        with pytest.raises(CkwatchError, match=r"'k' is a \.hip template, for hip devices, not cuda:0"):
            await daemon.device_profiles.take(MAIN, UNIT, "cuda:0", SHAPE)
        monkeypatch.setattr(profilers, "_USUAL", {"rocprofv3": (("ROCM_PATH",), ())})
        with pytest.raises(CkwatchError, match="rocprofv3 is not installed here") as missing:
            await daemon.device_profiles.take(MAIN, UNIT, "hip:0", SHAPE)
        assert "rocprofiler-sdk" in (missing.value.hint or "")


async def test_an_imported_profile_says_that_it_is_of_another_build(bench: IsaBench, tmp_path: Path) -> None:
    path = tmp_path / "samples.json"
    path.write_text(samples(("v_not_of_this_build v0", "/elsewhere/kernel.hip:3")))
    async with bench.open() as daemon, following(daemon) as seen:
        await build(daemon, UNIT)
        found = await daemon.device_profiles.import_file(MAIN, UNIT, str(path))
        assert found.other_build == "1 of 1 samples are of instructions that the present build lacks"
        assert [Path(line.path).name for line in found.lines] == ["k.hip.j2"]
        await seen.until(lambda now: now.units["one"].profiled_at == found.at)
        with pytest.raises(CkwatchError, match="cannot read"):
            await daemon.device_profiles.import_file(MAIN, UNIT, str(tmp_path / "none.json"))
