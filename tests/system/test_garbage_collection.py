"""When garbage is collected."""

from __future__ import annotations

import gc

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
