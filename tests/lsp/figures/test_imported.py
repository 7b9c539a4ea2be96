"""Imported timings in hovers over instances and shapes. No figure here was measured by anyone."""

from __future__ import annotations

import pytest

from ckwatch.model.topics import Topic
from ckwatch.wire.state import Change, Workspace
from ckwatch_lsp.figures.imported import ShapeTable, shape_at
from fakes.fake_imported_timings import imported_timing
from lsp.figures.desk import Desk, desk
from lsp.figures.made_up import timing, unit

KERNEL_FILE = """\
[[shape]]
name = "test"
M = 128 # rows
[[shape]] # none
M = 8
N = 16
[[instance]]
name = "one"
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (0, ShapeTable("test", {"M": 128})),
        (1, ShapeTable("test", {"M": 128})),
        (2, None),
        (3, ShapeTable("", {"M": 8, "N": 16})),
        (7, None),
        (99, None),
    ],
)
def test_the_shape_of_a_line(line: int, found: ShapeTable | None) -> None:
    assert shape_at(KERNEL_FILE, line) == found


async def imported(made: Desk, at: float) -> None:
    """The daemon says that timings were imported."""
    state = Workspace(root="/ws", loaded=True, busy=False, unit_count=1, jobs=1, compiling=0, imported_at=at)
    made.folder._take(Change(seq=0, topic=Topic("workspace"), state=state))  # as `report` does
    await made.settle()


async def test_hovers_follow_imports() -> None:
    async with desk() as made:
        uri = made.open("k.kernel.toml", KERNEL_FILE)
        await made.report(unit("one", timings=(timing(41.57, shape="test"),)))
        assert "others" not in await made.hover(uri, 6)
        assert await made.hover(uri, 0) == ""
        made.client.imported = [
            imported_timing(time_us=12.0, instance="theirs"),
            imported_timing(instances=("one",)),
            imported_timing(device="MI355X", arch="gfx950", time_us=1.0),
            imported_timing(shape="8x16", sizes={"M": 8, "N": 16}, time_us=3.0, runtime={"kBatch": 1}),
        ]
        await imported(made, 2.0)
        assert (
            "measured by others on gfx942:\n"
            "test: AITER, MI300X: 12.00 µs with theirs, not in the kernel file\n"
            "test: AITER, MI300X: 15.10 µs with this instance\n"
            "8x16: AITER, MI300X: 3.000 µs with theirs, not in the kernel file"
        ) in await made.hover(uri, 6)
        assert await made.hover(uri, 1) == (
            "k on test\n\nmeasured by others on gfx942:\n"
            "test: AITER, MI300X: 12.00 µs with theirs, not in the kernel file"
        )
        assert "8x16: AITER, MI300X: 3.000 µs" in await made.hover(uri, 3)
        made.client.imported = []
        await imported(made, 3.0)
        assert "others" not in await made.hover(uri, 6)
