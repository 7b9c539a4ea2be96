"""When garbage is collected."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from ckwatch.system.garbage_collection import NEVER, young_only


def test_the_collector_is_as_before_whatever_ends_first() -> None:
    before = gc.get_threshold()
    first, second = young_only(), young_only()
    first.__enter__()
    assert gc.get_threshold()[2] == NEVER
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold()[2] == NEVER
    second.__exit__(None, None, None)
    assert gc.get_threshold() == before


@pytest.mark.parametrize("frozen_before", [False, True])
def test_what_a_program_froze_stays_frozen(frozen_before: bool) -> None:
    code = f"""
import gc
import anyio
from ckwatch.system.garbage_collection import collect_when_idle, young_only

async def main():
    with young_only():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect_when_idle, lambda: False)
            await anyio.lowlevel.checkpoint()
            meanwhile = gc.get_freeze_count()
            tasks.cancel_scope.cancel()
    print(meanwhile > 0, gc.get_freeze_count() > 0)

if {frozen_before}:
    gc.freeze()
anyio.run(main)
"""
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["True", str(frozen_before)]
