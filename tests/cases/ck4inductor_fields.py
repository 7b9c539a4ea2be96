"""An operation of ck4inductor's list of universal GEMMs, and an installation that lists it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ckwatch.compile.toolchain.composable_kernel import ComposableKernelSources, sources_folder
from ckwatch.compile.toolchain.installations import cache_folder

_MODULE = """
from dataclasses import make_dataclass

LISTED = {listed!r}

def gen_ops_library():
    made = make_dataclass("CKGemmOperation", LISTED[0])
    return [made(**one) for one in LISTED]
"""

GEMM: dict[str, Any] = {
    "a_layout": "Row", "b_layout": "Col", "ds_layouts": (), "c_layout": "Row",
    "a_element_dtype": "F16", "b_element_dtype": "F16", "ds_element_dtypes": (), "c_element_dtype": "F16",
    "acc_dtype": "F32", "c_shuffle_dtype": "F16",
    "a_elementwise_op": "PassThrough", "b_elementwise_op": "PassThrough", "c_elementwise_op": "PassThrough",
    "gemm_specialization": "GemmSpecialization::MNKPadding", "block_size": 256,
    "m_per_block": 128, "n_per_block": 128, "k_per_block": 64, "a_k1": 8, "b_k1": 8,
    "m_per_xdl": 32, "n_per_xdl": 32, "m_xdl_per_wave": 2, "n_xdl_per_wave": 2,
    "a_block_transfer_thread_cluster_lengths_ak0_m_ak1": (8, 32, 1),
    "a_block_transfer_thread_cluster_arrange_order": (1, 0, 2), "a_block_transfer_src_access_order": (1, 0, 2),
    "a_block_transfer_src_vector_dim": 2, "a_block_transfer_src_scalar_per_vector": 8,
    "a_block_transfer_dst_scalar_per_vector_ak1": 8, "a_block_lds_extra_m": 0,
    "b_block_transfer_thread_cluster_lengths_bk0_n_bk1": (8, 32, 1),
    "b_block_transfer_thread_cluster_arrange_order": (1, 0, 2), "b_block_transfer_src_access_order": (1, 0, 2),
    "b_block_transfer_src_vector_dim": 2, "b_block_transfer_src_scalar_per_vector": 8,
    "b_block_transfer_dst_scalar_per_vector_bk1": 8, "b_block_lds_extra_n": 0,
    "c_shuffle_m_xdl_per_wave_per_shuffle": 1, "c_shuffle_n_xdl_per_wave_per_shuffle": 1,
    "c_shuffle_block_transfer_cluster_lengths_m_block_m_per_block_n_block_n_per_block": (1, 32, 1, 8),
    "c_shuffle_block_transfer_scalar_per_vector_n_per_block": 8,
    "block_gemm_pipeline_scheduler": "BlockGemmPipelineScheduler::Intrawave",
    "block_gemm_pipeline_version": "BlockGemmPipelineVersion::v3",
    "a_compute_dtype": None, "b_compute_dtype": None,
}  # fmt: skip


def install_list(*listed: dict[str, Any]) -> Path:
    """Install a ck4inductor with this list of universal GEMMs in the cache folder, and return its package of them."""
    package = ComposableKernelSources(sources_folder(cache_folder(os.environ))).python / "ck4inductor/universal_gemm"
    package.mkdir(parents=True)
    (package / "gen_instances.py").write_text(_MODULE.format(listed=[*listed]))
    return package
