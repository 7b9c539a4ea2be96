"""The processor as a device: opening it binds its process for good."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ckwatch.bench.runtimes import cpu
from ckwatch.bench.runtimes.cpu import CpuRuntime
from helpers.own_process import OwnProcess


@pytest.fixture
def processor_runtime() -> Iterator[CpuRuntime]:
    """The runtime of this machine's processor, with environment and affinity given back."""
    before = OwnProcess.now()
    yield cpu.open(cpu.find()[0])
    before.give_back()
