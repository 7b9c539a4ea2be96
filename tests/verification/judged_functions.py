"""Has functions of a shared object executed on the problems that a judge draws, and prints what was found of each.

python judged_functions.py LIBRARY OBJDUMP OBJECT WORKSPACE SEED FUNCTION…

A function's name begins with its operation, a kernel file of the workspace.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from ckwatch.bench.job import VerifyJob
from ckwatch.bench.progress import Progress
from ckwatch.bench.reference_calls import ReferenceCalls
from ckwatch.bench.worker_protocol import TrialVerified
from ckwatch.model.kernels import units_of
from ckwatch.model.verification import Verification, VerificationDepth
from ckwatch.verification import verify_job as module
from ckwatch.verification.findings import merged
from ckwatch.verification.problems import drawn_trials
from ckwatch.workspace.loading import load_workspace

_, library, objdump, path, root, seed, *names = sys.argv


class SharedCalls(ReferenceCalls):
    """The process of a reference, for all jobs."""

    def close(self) -> None:
        """Go on."""


setattr(module, "ReferenceCalls", cache(SharedCalls))  # noqa: B010  # as a constructor
workspace = load_workspace(Path(root))
assert not workspace.errors, workspace.errors
units = {kernel.name: units_of(kernel, ("gfx942",))[0] for kernel in workspace.kernels}
trials = {name: drawn_trials(unit, int(seed), VerificationDepth.ESSENTIAL) for name, unit in units.items()}
artifact = Path(path).read_bytes()
found = {}
for name in names:
    told: list[object] = []
    unit = units[name.partition("_")[0]]
    job = VerifyJob(
        arch="gfx942", symbol=name, trials=trials[unit.kernel.name], library=library, objdump=objdump,
        instruction_limit=200_000_000, reference=unit.kernel.operation.reference,
    )  # fmt: skip
    module.verify_job(job, [artifact], Progress(told.append))
    tried = [one for one in told if isinstance(one, TrialVerified)]
    found[name] = Verification(
        device="emulated:gfx942",
        problems=tuple(one.problem for one in tried),
        findings=merged(finding for one in tried for finding in one.findings),
    )
print(TypeAdapter(dict[str, Verification]).dump_json(found).decode())
