"""Contents of tensors from NumPy files that travel with a job: a problem names them by the SHA-256 of their content."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence

import numpy as np

from ckwatch.model.kernel_problem import KernelProblem


def file_arrays(problem: KernelProblem, contents: Sequence[bytes]) -> dict[str, object]:
    """Return by buffer the arrays of the files that its values are; `contents` holds them among others. Raises
    ValueError for one that is missing, and for what `numpy.load` does not take without pickle."""
    wanted = {one.name: one.values.digest for one in problem.buffers if one.values is not None and one.values.digest}
    if not wanted:
        return {}
    known = {hashlib.sha256(content).hexdigest(): content for content in contents}
    missing = [name for name, digest in wanted.items() if digest not in known]
    if missing:
        raise ValueError(f"the job is without the file of {missing[0]}")
    return {name: np.load(io.BytesIO(known[digest]), allow_pickle=False) for name, digest in wanted.items()}
