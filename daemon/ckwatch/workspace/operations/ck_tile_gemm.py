"""`[operation]` of kind `ck_tile_gemm`: as `gemm`, with the C function of PyTorch Inductor's CK Tile template.

It has no leading dimension of a Bias, which therefore is a vector.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ckwatch.model.kernels import Operation
from ckwatch.workspace.operations import gemm
from ckwatch.workspace.operations.gemm import GEMM, MatrixProductTable
from ckwatch.workspace.operations.kind import OperationKind
from ckwatch.workspace.problems import Problems

ABOUT = "as `gemm`, without LDD: a Bias is a vector"

SIZES = tuple(name for name in gemm.SIZES if name != "LDD")


class CkTileGemmTable(MatrixProductTable):
    """`[operation]` of kind `ck_tile_gemm`."""

    kind: Literal["ck_tile_gemm"] = Field(description=f"`ck_tile_gemm`: {ABOUT}")


def read_ck_tile_gemm(problems: Problems, table: CkTileGemmTable) -> Operation | None:
    """The operation of a table; of use only where `problems` got no new error."""
    given = gemm.product_tensors(problems, table)
    settings = gemm.product_settings(problems, table)
    if table.bias is not None and table.bias.full:
        message = 'a full Bias needs a leading dimension, which `ck_tile_gemm` does not have: use kind = "gemm"'
        problems.at_value(("operation", "bias", "full"), "dimension-mismatch", message)
    if given is None:
        return None
    accumulator, steps = gemm.accumulator_of(table, given), gemm.product_steps(table)
    return gemm.product_operation(table.kind, given, accumulator, settings, SIZES, steps)


CK_TILE_GEMM = OperationKind(
    about=ABOUT,
    table=CkTileGemmTable,
    read=read_ck_tile_gemm,
    shape_docs={name: text for name, text in gemm.SHAPE_DOCS.items() if name != "LDD"},
    tensors=GEMM.tensors,
    sizes=SIZES,
    runtime=GEMM.runtime,
    defaults={name: least for name, least in GEMM.defaults.items() if name != "LDD"},
    sizes_for=GEMM.sizes_for,
)
