"""The state of its own process that a test gives back to those that follow it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

PYTESTS_OWN = "PYTEST_CURRENT_TEST"


class OwnProcess(NamedTuple):
    """Environment, processors and folder of this process."""

    environment: dict[str, str]
    processors: set[int]
    folder: Path

    @classmethod
    def now(cls) -> OwnProcess:
        """Return them as they are, without pytest's own variable."""
        environment = {name: value for name, value in os.environ.items() if name != PYTESTS_OWN}
        return cls(environment, os.sched_getaffinity(0), Path.cwd())

    def give_back(self) -> None:
        """Set them again."""
        for name in os.environ.keys() - self.environment.keys() - {PYTESTS_OWN}:
            del os.environ[name]
        os.environ.update(self.environment)
        os.sched_setaffinity(0, self.processors)
        os.chdir(self.folder)
