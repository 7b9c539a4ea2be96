"""Imports by the daemon: what it keeps and answers. The times are inventions of the tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benches.daemon_bench import Bench
from ckwatch.model.errors import CkwatchError, UnknownUnitError
from helpers.imported_workspaces import NAME, OTHER, TABLE, kernel_text

LARGE = [(15.1, NAME, ("theirs",)), (17.5, OTHER, ()), (21.25, OTHER, ())]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    made.write("k.kernel.toml", kernel_text().replace("t.hip.j2", "k.hip.j2"))
    (made.root / "their.csv").write_text(TABLE)
    return made


async def test_a_table_is_kept_and_matched(bench: Bench) -> None:
    path = str(bench.root / "their.csv")
    async with bench.open() as daemon:
        for source in (None, "AITER 0.1.7"):
            report = await daemon.imported.import_file(path, source=source)
        assert report.file.devices == {"MI300X": 3, "MI355X": 2}
        assert (report.matches["k"].timings, report.matches["k"].instances) == (3, 1)
        assert [(row.line, row.why) for row in report.unused] == [(7, "us is `nan`, no time")]
        found = await daemon.imported.timings("k", "large", None)
        assert [(one.time_us, one.instance, one.instances) for one in found] == LARGE
        assert {(one.source, one.shape) for one in found} == {("AITER 0.1.7", "large")}
        assert [one.device for one in await daemon.imported.timings("k", None, "gfx942:xnack-")] == ["MI300X"]
        assert await daemon.imported.timings("k", "small", None) == []
        assert len(await daemon.imported.timings(None, None, None)) == 5
        assert await daemon.benchmarks.best("k", None) == []
        at = daemon.loop.state.imported_at
        assert at is not None
    async with bench.open() as daemon:
        assert len(await daemon.imported.timings("k", None, None)) == 3
        assert [(one.path, one.timings) for one in await daemon.imported.files()] == [(path, 5)]
        await daemon.imported.remove(path)
        assert await daemon.imported.timings("k", None, None) == []
        assert daemon.loop.state.imported_at is not None
        with pytest.raises(CkwatchError, match="no timings were imported from"):
            await daemon.imported.remove(path)


async def test_results_of_kernel_tuner(bench: Bench) -> None:
    results = [
        {"configuration": {"KPerBlock": 256}, "invalidity": "correct", "measurements": [{"name": "time", "value": 1}]},
        {"configuration": {"KPerBlock": 64}, "invalidity": "compile"},
    ]
    path = bench.root / "t4.json"
    path.write_text(json.dumps({"results": results}))
    async with bench.open() as daemon:
        with pytest.raises(CkwatchError, match="does not name its kernel"):
            await daemon.imported.import_file(str(path))
        with pytest.raises(UnknownUnitError, match="there is no kernel 'j'"):
            await daemon.imported.import_file(str(path), kernel="j")
        report = await daemon.imported.import_file(str(path), kernel="k", device="AMD Instinct MI300X")
        assert (report.file.source, report.failed, report.matches) == ("Kernel Tuner", {"compile": 1}, {})


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("none.csv", None, "cannot read"),
        ("x.csv", b"\xff\xfe", "is not UTF-8"),
        ("x.csv", b"a,b\n", "is not a file of AITER: it has no column"),
        ("x.csv", TABLE.partition("\n")[0].encode(), "has no timings that can be used"),
    ],
)
async def test_files_without_timings(bench: Bench, name: str, content: bytes | None, why: str) -> None:
    if content is not None:
        (bench.root / name).write_bytes(content)
    async with bench.open() as daemon:
        with pytest.raises(CkwatchError, match=why):
            await daemon.imported.import_file(str(bench.root / name))
        assert await daemon.imported.files() == []


async def test_a_kernel_and_a_shape_that_are_not_there(bench: Bench) -> None:
    async with bench.open() as daemon:
        with pytest.raises(UnknownUnitError, match="there is no kernel 'j'"):
            await daemon.imported.timings("j", None, None)
        with pytest.raises(CkwatchError, match="'k' has no shape 'huge'"):
            await daemon.imported.timings("k", "huge", None)
