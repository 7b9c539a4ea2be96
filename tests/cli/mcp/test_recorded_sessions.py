"""Two recorded sessions of an assistant, played again by the official client: the same calls get the same figures.

A recording is a list of calls, each with the figures of its answer. `python -m cli.mcp.test_recorded_sessions FILE`, with
`tests` on PYTHONPATH, records the answers anew, which is for changes that are meant to change them.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest
from mcp import Client as Assistant
from mcp_types import CallToolResult, TextContent

from ckwatch.cli import main
from ckwatch.cli.mcp.answers import TOKEN_LIMIT, token_count
from ckwatch.cli.mcp.budget import SessionBudget
from ckwatch.cli.mcp.server import AgentSession, make_server
from ckwatch.client import connect
from ckwatch.compile.store.artifacts import default_folder
from ckwatch.verification.library import FOLDER
from ckwatch.workspace.trust import trust

pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(900)]

TESTS = Path(__file__).parents[2]
RECORDINGS = TESTS / "data" / "agents"

OWN_STORE = '[store]\nfolder = "../store"\n'
"""Empty at first: what another store has would be in the answers."""

FIGURES = frozenset(
    [
        "event",
        "exit_status",
        "code",
        "severity",
        "unit",
        "instance",
        "outcome",
        "units",
        "checked",
        "built",
        "skipped",
        "failed",
        "faulted",
        "verdict",
        "vgprs",
        "agprs",
        "sgprs",
        "vgpr_spills",
        "sgpr_spills",
        "scratch_bytes",
        "lds_bytes",
        "occupancy",
        "limited_by",
        "executed",
        "workgroups",
        "all_workgroups",
        "issued",
        "requests",
        "phases",
        "turns",
        "bytes",
        "passed",
        "problems",
        "compared",
        "kind",
        "line",
        "better",
    ]
)
"""Fields that are exact: neither times nor predictions, nor words."""


Figure = tuple[str, Any]
"""Where it stands, without places in lists, since units end in any order, and its value."""


def figures(answer: Any, path: str = "") -> Iterator[Figure]:
    """The exact fields of an answer."""
    if isinstance(answer, dict):
        for name, value in answer.items():
            if name in FIGURES and not isinstance(value, (dict, list)):
                yield f"{path}/{name}", value
            else:
                yield from figures(value, f"{path}/{name}")
    if isinstance(answer, list):
        for one in answer:
            yield from figures(one, path)


def figures_of(answer: Any) -> Iterator[Figure]:
    """The figures of an answer, but those of code beside a unit: they are there as soon as it is analyzed, from the
    beginning if the store has it. `inspect` waits for them."""
    return ((path, value) for path, value in figures(answer) if "/figures/" not in path)


def cut_from(answer: Any) -> list[str]:
    """The parts that were too long: how much of them is shown depends on the lengths of paths."""
    return sorted({re.sub(r"/\d+", "", one["at"]) for one in answer.get("cut", ())})


def whole(found: Iterable[Figure], cut: Iterable[str]) -> list[list[Any]]:
    """The figures that are not of a part that is cut, in an order of their own."""
    parts = tuple(f"{part}/" for part in cut)
    kept = [[path, value] for path, value in found if not path.startswith(parts)]
    return sorted(kept, key=json.dumps)


def faster(folder: Path) -> Path:
    """The shipped transposition, for one arch."""
    root = folder / "transpose"
    shutil.copytree(TESTS.parent / "examples" / "transpose", root)
    (root / "ckwatch.toml").write_text(f'[workspace]\narchs = ["gfx942"]\n{OWN_STORE}')
    return root


SOURCE = """\
#include <hip/hip_runtime.h>
__global__ void scale_rows(float* __restrict__ out, const float* __restrict__ x, const float factor, const int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    out[i] = x[i] * factor;
}
"""


def brought_in(folder: Path) -> Path:
    """What `ckwatch import hip` makes of a kernel."""
    root = folder / "kernels"
    root.mkdir()
    (root / "scale.hip").write_text(SOURCE)
    assert main(["import", "hip", str(root / "scale.hip"), "--out", str(root)]) == 0
    settings = root / "ckwatch.toml"
    if "archs" not in settings.read_text():
        settings.write_text('[workspace]\narchs = ["gfx942"]\n' + settings.read_text())
    settings.write_text(f"{settings.read_text()}\n{OWN_STORE}")
    return root


SESSIONS: dict[str, Callable[[Path], Path]] = {"make_this_kernel_faster": faster, "bring_this_kernel_in": brought_in}


@asynccontextmanager
async def assistant(root: Path) -> AsyncIterator[Assistant]:
    trust(root)
    built = default_folder() / FOLDER  # the emulator, which no answer tells of: each store would build one for a minute
    built.mkdir(parents=True, exist_ok=True)
    store = root.parent / "store"
    store.mkdir()
    (store / FOLDER).symlink_to(built)
    async with connect(root, private=True) as client:
        await client.sync()
        await client.check()
        session = AgentSession(client, SessionBudget(40, 40, 3600.0), allow_changes=True)
        async with Assistant(make_server(session)) as found:
            yield found
        await session.edits.close()


async def played(root: Path, calls: list[dict[str, Any]]) -> AsyncIterator[tuple[dict[str, Any], Any]]:
    """Each call with the answer that it gets now."""
    async with assistant(root) as found:
        for call in calls:
            result = await found.call_tool(call["tool"], call["arguments"])
            assert isinstance(result, CallToolResult)
            (content,) = result.content
            assert isinstance(content, TextContent)
            assert token_count(content.text) <= TOKEN_LIMIT
            text = content.text.replace(str(root), "ROOT")
            yield call, {"refused": text} if result.is_error else result.structured_content


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_gets_the_same_figures(name: str) -> None:
    calls = json.loads((RECORDINGS / f"{name}.json").read_text())
    assert len(calls) >= 25

    async def play(root: Path) -> None:
        number = 0
        async for call, answer in played(root, calls):
            number += 1
            if "refused" in call:
                assert call["refused"] in answer["refused"], (number, call)
            else:
                now, cut = whole(figures_of(answer), call["cut"]), cut_from(answer)
                known = whole((tuple(one) for one in call["figures"]), cut)
                assert whole((tuple(one) for one in now), cut) == known, (number, call["tool"], call["arguments"])
        assert number == len(calls)

    with TemporaryDirectory() as folder:  # with a name as long as when it was recorded: what is cut depends on that
        anyio.run(play, SESSIONS[name](Path(folder)))


def _record(name: str) -> None:
    path = RECORDINGS / f"{name}.json"
    calls = json.loads(path.read_text())

    async def play(root: Path) -> Iterator[dict[str, Any]]:
        made = []
        async for call, answer in played(root, calls):
            print(call["tool"], call["arguments"], json.dumps(answer)[:2000], flush=True)
            kept = answer
            if "refused" not in answer:
                kept = {"figures": whole(figures_of(answer), cut_from(answer)), "cut": cut_from(answer)}
            made.append({"tool": call["tool"], "arguments": call["arguments"], **kept})
        return iter(made)

    with TemporaryDirectory() as folder:
        made = [*anyio.run(play, SESSIONS[name](Path(folder)))]
    path.write_text("[\n" + ",\n".join(json.dumps(one, ensure_ascii=False) for one in made) + "\n]\n")


if __name__ == "__main__":
    _record(sys.argv[1])
