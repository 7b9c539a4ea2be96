"""The daemon with the real hipcc on the GEMM example: edit, break, fix; and what costs a compile and what does not.

It uses the user's own store: the instance has been compiled by the tests of the example, or is compiled here once.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import ckwatch_templates
from benches.daemon_bench import Follower, build, following
from ckwatch.engine.answers import Daemon
from ckwatch.engine.bootstrap import open_engine
from ckwatch.wire.state import Unit

ROOT = Path(__file__).parent.parent
TEMPLATE = "ck/gemm_universal.hip.j2"
INSTANCE = "v3_128x128x64_intrawave"
pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(3600)]


@pytest.fixture
def root(trusted: Path, tmp_path: Path) -> Path:
    """The shipped example with one instance, compiled after each edit."""
    text = (ROOT / "examples/gemm/gemm_f16.kernel.toml").read_text()
    head, *instances = re.split(r"(?m)^(?=\[\[instance\]\])", text)
    chosen = next(instance for instance in instances if f'"{INSTANCE}"' in instance)
    (tmp_path / "ckwatch.toml").write_text('[daemon]\nbuild = "edited"\n')
    (tmp_path / "gemm_f16.kernel.toml").write_text(head + chosen)
    (tmp_path / "templates/ck").mkdir(parents=True)
    return tmp_path


@asynccontextmanager
async def running(root: Path) -> AsyncIterator[tuple[Daemon, Follower]]:
    async with open_engine(root, history=root / "history.sqlite") as daemon, following(daemon) as seen:
        yield daemon, seen


def compiled(seen: Follower) -> int:
    """How often a compiler was at work, as the follower saw it."""
    phases = [change.state.phase for change in seen.seen if isinstance(change.state, Unit)]
    return sum(new == "compiling" != old for old, new in zip(["", *phases], phases, strict=False))


async def test_edit_break_fix(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benches.daemon_bench.SECONDS", 600.0)
    builtin = (ckwatch_templates.ROOT / TEMPLATE).read_text()
    own = root / "templates" / TEMPLATE
    async with running(root) as (daemon, seen):
        first = (await build(daemon))[INSTANCE]
        assert first.unit is not None
        assert (first.unit.outcome, first.unit.fresh) == ("built", True)
        before = compiled(seen)

        # The same text at a place that comes first, then with more comments: no compile.
        own.write_text(builtin)
        await seen.until(
            lambda s: INSTANCE in s.units and s.units[INSTANCE].fresh and "appeared" in s.units[INSTANCE].cause[-1].what
        )
        own.write_text(builtin + "\n// a comment\n\n")
        await seen.until(
            lambda s: INSTANCE in s.units and s.units[INSTANCE].fresh and "changed" in s.units[INSTANCE].cause[-1].what
        )
        assert seen.units[INSTANCE].outcome == "built"
        assert compiled(seen) == before

        # A mistake: hipcc's own words at the template's line.
        lines = builtin.splitlines(keepends=True)
        at = next(number for number, line in enumerate(lines) if "using namespace" in line)
        # A name that the store has never seen.
        own.write_text("".join([*lines[:at], f"undeclared_name_{time.time_ns()} x;\n", *lines[at:]]))
        await seen.until(
            lambda s: any(not d.stale for d in s.files[str(own)].diagnostics) if str(own) in s.files else False
        )
        errors = [found for found in seen.files[str(own)].diagnostics if found.severity == "error"]
        assert [(error.span.start.line, error.span.start.column) for error in errors[:1]] == [(at, 0)]
        assert "undeclared_name" in errors[0].message
        # It was shown while a compiler was still at work, as of the present generation.
        units = [change.state for change in seen.seen if isinstance(change.state, Unit)]
        assert any(unit.phase == "compiling" and unit.errors and not unit.fresh for unit in units)
        assert list(seen.files[str(own)].generations.values()) == [seen.units[INSTANCE].generation]
        await seen.until(lambda s: INSTANCE in s.units and s.units[INSTANCE].fresh)
        assert seen.units[INSTANCE].outcome == "failed"
        assert compiled(seen) == before + 1

        # Mended: the store still has it.
        own.unlink()
        await seen.until(
            lambda s: INSTANCE in s.units and s.units[INSTANCE].fresh and s.units[INSTANCE].outcome == "built"
        )
        assert not seen.files[str(own)].diagnostics
        assert compiled(seen) == before + 1
        assert seen.units[INSTANCE].key == first.unit.key

        # An instance that Composable Kernel would refuse is told without a compiler.
        kernel = root / "gemm_f16.kernel.toml"
        good = kernel.read_text()
        bad = re.sub(r"(?m)^MPerBlock = 128", "MPerBlock = 100", good)
        assert bad != good
        kernel.write_text(bad)
        await seen.until(lambda s: INSTANCE in s.units and s.units[INSTANCE].fresh and s.units[INSTANCE].errors > 0)
        found = seen.files[str(kernel)].diagnostics
        assert found
        assert all(diagnostic.source == "rule" for diagnostic in found)
        kernel.write_text(good)
        await seen.until(
            lambda s: INSTANCE in s.units and s.units[INSTANCE].fresh and s.units[INSTANCE].outcome == "built"
        )
        assert compiled(seen) == before + 1
