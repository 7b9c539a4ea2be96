"""The state of its own process that a test gives back to those that follow it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

PYTESTS_OWN = b"PYTEST_CURRENT_TEST"


class OwnProcess(NamedTuple):
    """Environment, processors and folder of this process."""

    environment: dict[bytes, bytes]
    processors: set[int]
    folder: Path

    @classmethod
    def now(cls) -> OwnProcess:
        """Return them as they are, without pytest's own variable."""
        environment = dict(vars(os.environb)["_data"])  # a copy that decodes nothing, for each of thousands of tests
        environment.pop(PYTESTS_OWN, None)
        return cls(environment, os.sched_getaffinity(0), Path.cwd())

    def give_back(self) -> None:
        """Set them again."""
        for name in os.environb.keys() - self.environment.keys() - {PYTESTS_OWN}:
            del os.environb[name]
        os.environb.update(self.environment)
        os.sched_setaffinity(0, self.processors)
        os.chdir(self.folder)
