"""The processor as a device: opening it binds its process for good."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from ckwatch.bench.runtimes import cpu
from ckwatch.bench.runtimes.cpu import CpuRuntime


@pytest.fixture
def processor_runtime() -> Iterator[CpuRuntime]:
    """The runtime of this machine's processor, with environment and affinity given back."""
    environment, affinity = dict(os.environ), os.sched_getaffinity(0)
    opened = cpu.open(cpu.find()[0])
    yield opened
    opened.close()
    os.sched_setaffinity(0, affinity)
    os.environ.clear()
    os.environ.update(environment)
