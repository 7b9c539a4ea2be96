"""Shapes that CK's MoE GEMM refuses, and those next to them that it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.checks.supported_shapes import shape_rules, unsupported_reason
from ckwatch.model.kernel_problem import problem_of
from ckwatch.model.kernels import ParameterValue
from helpers.workspaces import INSTANCE, TOP, workspace

PARAMETERS: dict[str, ParameterValue] = {"MPerBlock": 32, "NPerBlock": 64, "KPerBlock": 128, "NSwizzle": False}


def reason(root: Path, stage: int, sizes: dict[str, int], dtype: str = "f8") -> str:
    shape = "\n".join(f"{name} = {size}" for name, size in sizes.items())
    operation = f'[operation]\nkind = "moe_gemm"\nstage = {stage}\ndtype = "{dtype}"\nblock_m = 32\n'
    kernel = workspace(root, {"k.kernel.toml": TOP + operation + INSTANCE + f"\n[[shape]]\n{shape}\n"}).kernels[0]
    return unsupported_reason(PARAMETERS, problem_of(kernel.operation, kernel.shapes[0], "gfx942"))


USUAL = {"tokens": 17, "topk": 2, "experts": 4, "N": 128, "K": 256}


@pytest.mark.parametrize(
    ("stage", "change", "expected"),
    [
        (1, {}, ""),
        (2, {}, ""),
        (1, {"N": 136}, "N = 136 is not a multiple of NPerBlock = 64"),
        (2, {"K": 192}, "K = 192 is not a multiple of KPerBlock = 128"),
        (1, {"sorted_size": 161}, "sorted_size = 161 is not a multiple of MPerBlock = 32"),
        (1, {"sorted_size": 32 * 65535}, ""),
        (1, {"sorted_size": 32 * 65536}, "sorted_size = 2097152 are more than 65535 tiles of 32"),
        (1, {"tokens": 65535, "K": 32768, "N": 64}, "X reaches beyond 2 GiB"),
        (1, {"tokens": 65534, "K": 32768, "N": 64}, ""),
        (2, {"tokens": 32767, "K": 32768, "N": 64}, "X reaches beyond 2 GiB"),
        (1, {"N": 32768, "K": 65536, "tokens": 1}, "an expert's W reaches beyond 2 GiB"),
        (1, {"N": 2048, "K": 7168, "experts": 256, "tokens": 1}, "W has more than 2^31 - 1 elements"),
        (1, {"N": 256, "K": 7168, "experts": 256, "tokens": 1}, ""),
    ],
)
def test_what_is_refused(tmp_path: Path, stage: int, change: dict[str, int], expected: str) -> None:
    assert reason(tmp_path, stage, USUAL | change) == expected


def test_the_family_is_known_by_a_parameter_of_its_own() -> None:
    family = shape_rules(PARAMETERS)
    assert family is not None
    assert shape_rules({name: value for name, value in PARAMETERS.items() if name != "NSwizzle"}) is not family
