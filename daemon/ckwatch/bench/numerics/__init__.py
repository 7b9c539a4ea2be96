"""Inputs of a kernel and whether what it computed is right: numpy on the host, no device.

The generator, its ranges and the tolerance are those of the standalone runner
(`ckwatch_templates/runner/gemm_runner_main.j2`), so that both tell the same of a kernel.
"""

from ckwatch.bench.numerics.elements import Storage, narrow, poison, storage_type, widen
from ckwatch.bench.numerics.inputs import make_inputs
from ckwatch.bench.numerics.places import gap_mask
from ckwatch.bench.numerics.reference import Reference
from ckwatch.bench.numerics.tolerance import Tolerance, tolerance_of
from ckwatch.bench.numerics.verdict import Checked, WrongNumerics, check_written

__all__ = [
    "Checked",
    "Reference",
    "Storage",
    "Tolerance",
    "WrongNumerics",
    "check_written",
    "gap_mask",
    "make_inputs",
    "narrow",
    "poison",
    "storage_type",
    "tolerance_of",
    "widen",
]
