"""Names of files that hold code for AMD GPUs.

Commands ask for each of their words, so that it loads next to nothing.
"""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

SUFFIXES = (".hsaco", ".co", ".so", ".o", ".a", ".pt2", ".hipfb")
"""Of files that are read in folders and archives."""
TRITON_TEXTS = (".json", ".ttgir", ".ttir", ".amdgcn", ".llir", ".source")
"""Files of an entry of Triton's cache that stand for its `.hsaco`."""
MOST_FILES = 10_000


def code_paths(folder: Path) -> list[Path]:
    """Return the files in a folder, at any depth, whose names say that they hold code; 10,000 at most."""
    names = (
        Path(where, name)
        for where, _, names in islice(os.walk(folder), MOST_FILES)
        for name in names
        if name.endswith(SUFFIXES)
    )
    return sorted(islice(names, MOST_FILES))
