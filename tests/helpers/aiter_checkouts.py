"""A small checkout of AITER, made up for tests: lists of kernels in the forms that AITER's have, and tables."""

from __future__ import annotations

from pathlib import Path

_FIELDS = (
    "BLOCK_SIZE: int\n    MPerBLOCK: int\n    NPerBLOCK: int\n    KPerBLOCK: int\n    WAVE_TILE_M: int\n    WAVE_TILE_N: int\n"
    "    WAVE_MAP_M: int\n    WAVE_MAP_N: int\n    ABLOCK_TRANSFER: list[int]\n    BBLOCK_TRANSFER: list[int]\n"
    "    CBLOCK_TRANSFER: list[int]\n    CBLOCK_SPV: list[int]\n    CSHUFFLE_MX_PER_WAVE_PERSHUFFLE: int\n"
    "    CSHUFFLE_NX_PER_WAVE_PERSHUFFLE: int\n    LOOP_SCHED: str\n    PIPELINE_VERSION: int\n"
)
ROWWISE_LIST = f"""
from dataclasses import dataclass

@dataclass
class kernelInstance:
    {_FIELDS}
    @property
    def name(self) -> str:
        def times(values):
            return "x".join(str(one) for one in values)
        return "_".join([
            "a8w8_rowwise", times([self.BLOCK_SIZE, self.MPerBLOCK, self.NPerBLOCK, self.KPerBLOCK]),
            times([self.WAVE_TILE_M, self.WAVE_TILE_N]), times([self.WAVE_MAP_M, self.WAVE_MAP_N]),
            times(self.ABLOCK_TRANSFER), times(self.BBLOCK_TRANSFER), times(self.CBLOCK_TRANSFER),
            times(self.CBLOCK_SPV),
            times([self.CSHUFFLE_MX_PER_WAVE_PERSHUFFLE, self.CSHUFFLE_NX_PER_WAVE_PERSHUFFLE]),
            self.LOOP_SCHED.lower(), f"v{{self.PIPELINE_VERSION}}",
        ])

kernels_list = {{
    0: kernelInstance(256, 128, 128, 128, 32, 32, 2, 2, [8, 32, 1], [8, 32, 1], [1, 32, 1, 8], [8, 8, 1], 1, 1, "Intrawave", 3),
    1: kernelInstance(256, 16, 64, 512, 16, 16, 1, 1, [32, 8, 1], [32, 8, 1], [1, 16, 1, 16], [4, 4, 1], 1, 1, "Intrawave", 3),
}}
"""
TILE_LIST = """
from copy import copy
from dataclasses import dataclass
from chip_info import get_gfx

@dataclass
class Tile:
    M_Tile: int
    K_Tile: int
    BlockPerCu: int = 1

    @property
    def name(self):
        return "_".join(["a8w8_blockscale_cktile", f"{self.M_Tile}x{self.K_Tile}", str(self.BlockPerCu)])

def expanded(base):
    found = dict(base)
    for number, one in base.items():
        other = copy(one)
        other.BlockPerCu = 2
        found[number + 100] = other
    return found

lists = {"gfx942": {0: Tile(128, 128)}, "gfx950": {0: Tile(192, 128), 1: Tile(128, 128)}}
candidate_kernels_cktile_dict = expanded(lists[get_gfx()])
"""
OPUS_LIST = """
from dataclasses import dataclass

@dataclass
class Opus:
    B_M: int
    arch_prefix: str = ""

    @property
    def name(self):
        return "_".join(["opus_gemm", *([self.arch_prefix] if self.arch_prefix else []), str(self.B_M)])

kernels_list = {4: Opus(128), 5: Opus(256), 10201: Opus(64, "gfx942")}
"""
MOE_LIST = """
from copy import deepcopy
from dataclasses import dataclass
from chip_info import get_gfx

@dataclass
class Stage1:
    tile: int
    weight: bool = False
    act: str = ""
    types: str = ""

    @property
    def name(self):
        more = f"Nswizzle0_Quant2_MulRoutedWeight{int(self.weight)}_{self.act}_{self.types}"
        return f"moe_ck2stages_gemm1_256x{self.tile}x64x128_1x4_MulABScale_v1_{more}"

def get_gemm1_kernels_list(a, b, c, swizzle, quant, act, weight, preshuffle=False, splitk=False):
    if a != "F8":
        raise ValueError("unsupported")
    kernels = {0: Stage1(32), 1: Stage1(64)} if get_gfx() == "gfx942" else {0: Stage1(32)}
    found = {number: deepcopy(one) for number, one in kernels.items()}
    for one in found.values():
        one.weight = weight
        one.act = act
        one.types = "_".join([a, b, c])
    return "a8w8", found
"""
FLYDSL_LIST = """
_PARAMS = {}
_KERNEL_PARAMS = {}

def flydsl_kernel_name(stage, tile):
    return f"flydsl_moe{stage}_afp8_wfp4_bf16_t{tile}x128x256"

def _register_all_configs():
    for tile in (16, 32):
        _KERNEL_PARAMS.update({flydsl_kernel_name(stage, tile): {"stage": stage} for stage in (1, 2)})

_register_all_configs()
"""
OPUS_MOE_LIST = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Stage:
    kid: int
    name: str

STAGE1_A8W4_KERNELS = {1: Stage(1, "opus_moe1_afp8_t16x384")}
STAGE2_A8W4_KERNELS = {2: Stage(2, "opus_moe2_afp8_t64x256")}
"""
LARGE = "a8w8_rowwise_256x128x128x128_32x32_2x2_8x32x1_8x32x1_1x32x1x8_8x8x1_1x1_intrawave_v3"
SMALL = "a8w8_rowwise_256x16x64x512_16x16_1x1_32x8x1_32x8x1_1x16x1x16_4x4x1_1x1_intrawave_v3"
ASSEMBLY = "_ZN5aiter20bf16gemm_tn_64x64E"


def moe_kernel(tile: int, types: str = "F8_F8_B16") -> str:
    """Return the name of a kernel of the first stage of MoE."""
    return f"moe_ck2stages_gemm1_256x{tile}x64x128_1x4_MulABScale_v1_Nswizzle0_Quant2_MulRoutedWeight0_silu_{types}"


def write_checkout(root: Path) -> Path:
    """Write the checkout to a folder, and return the folder of its tables."""
    texts = {
        "csrc/ck_gemm_a8w8/gemm_a8w8_common.py": ROWWISE_LIST,
        "csrc/ck_gemm_a8w8_blockscale/gemm_a8w8_blockscale_cktile_instance.py": TILE_LIST,
        "csrc/ck_gemm_a8w8_blockscale/gen_instances_cktile.py": "build_tune_dict(kernels_by_name=candidate_kernels_by_name)",
        "csrc/ck_gemm_a4w4_blockscale/gemm_a4w4_blockscale_common.py": "kernels_list = made_elsewhere()",
        "csrc/opus_gemm/opus_gemm_common.py": OPUS_LIST,
        "csrc/ck_gemm_moe_2stages_codegen/gemm_moe_ck2stages_common.py": MOE_LIST,
        "aiter/ops/flydsl/moe_kernels.py": FLYDSL_LIST,
        "csrc/opus_moe/opus_moe_common.py": OPUS_MOE_LIST,
        "hsa/gfx942/bf16gemm/bf16gemm.csv": f"knl_name,co_name\n{ASSEMBLY},a.co\n",
        "hsa/gfx950/bf16gemm/bf16gemm.csv": "knl_name,co_name\n_ZN5aiter1bE,b.co\n",
    }
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    tables = root / "aiter/configs"
    (tables / "model_configs").mkdir(parents=True)
    return tables
