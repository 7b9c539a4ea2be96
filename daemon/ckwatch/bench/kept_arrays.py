"""Results of slow references, kept by all that they follow from: sweeps verify many instances on the same inputs."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ckwatch.bench.array_messages import Array, ArrayMessageError, receive, send
from ckwatch.system.durable_files import replace_file
from ckwatch.system.user_files import BINARY_LIMIT_BYTES, read_file

KEPT_BYTES = 512 << 20
"""Of all results; those used last stay."""

SLOW_S = 0.2
"""Calls that take less are made again."""


class KeptArrays:
    """Arrays by key in a folder; what cannot be read or written is not there. `folder` None: nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def key(self, digest: str, head: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
        """Equal for equal calls of the same reference."""
        if self._folder is None:
            return ""
        key = hashlib.sha256(json.dumps([digest, np.__version__, head, sorted(arrays)], sort_keys=True).encode())
        for _, array in sorted(arrays.items()):
            key.update(repr((array.dtype.str, array.shape)).encode())
            key.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        return key.hexdigest()

    def read(self, key: str) -> dict[str, Array] | None:
        """The arrays that are kept under a key, which counts as a use."""
        if self._folder is None:
            return None
        path = self._folder / key
        try:
            _, arrays = receive(io.BytesIO(read_file(path, BINARY_LIMIT_BYTES)))
            os.utime(path)
        except (OSError, ArrayMessageError):
            return None
        return arrays

    def keep(self, key: str, arrays: Mapping[str, Array], seconds: float) -> None:
        """Keep the arrays of a call that took so long, if that pays."""
        size = sum(one.nbytes for one in arrays.values())
        if self._folder is None or seconds < SLOW_S or size > KEPT_BYTES // 4:
            return
        content = io.BytesIO()
        send(content, {}, arrays)
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            replace_file(self._folder / key, content.getvalue(), flushed=False)
            left = KEPT_BYTES
            for entry, status in sorted(_entries(self._folder), key=lambda one: one[1].st_mtime, reverse=True):
                left -= status.st_size
                if left < 0:
                    entry.unlink(missing_ok=True)


def _entries(folder: Path) -> list[tuple[Path, os.stat_result]]:
    found = []
    for entry in folder.iterdir():
        with suppress(OSError):  # another process may have dropped it
            found.append((entry, entry.stat()))
    return found
