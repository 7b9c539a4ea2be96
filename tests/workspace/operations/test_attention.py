"""Attention: its tensors and strides, what it costs, and what is refused in `[operation]`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.model.kernel_problem import problem_of
from ckwatch.model.kernels import Kernel
from ckwatch.workspace.loading import Workspace
from ckwatch.workspace.operations import KINDS
from ckwatch.workspace.shapes import with_defaults, wrong_sizes
from helpers.workspaces import INSTANCE, TOP, workspace

OPERATION = '[operation]\nkind = "attention"\ndtype = "f16"\nhead = 64\n'
FIXED = "batch = 2\nnhead_q = 6\nnhead_k = 3\nseqlen_q = 5\nseqlen_k = 7\n"
VARIABLE = "batch = 2\nnhead_q = 6\nnhead_k = 3\ntotal_q = 8\ntotal_k = 9\nmax_seqlen_q = 5\nmax_seqlen_k = 7\n"


def read(root: Path, more: str = "", shape: str = FIXED) -> Workspace:
    return workspace(root, {"k.kernel.toml": TOP + OPERATION + more + INSTANCE + f"\n[[shape]]\n{shape}"})


def loaded(root: Path, more: str = "", shape: str = FIXED) -> Kernel:
    found = read(root, more, shape)
    assert found.diagnostics == ()
    return found.kernels[0]


def test_strides_leave_no_gaps(tmp_path: Path) -> None:
    kernel = loaded(tmp_path, "head_v = 32\nlse = true\n")
    sizes = kernel.shapes[0].sizes
    assert [sizes[f"{of}stride_q"] for of in ("nhead_", "", "batch_")] == [64, 6 * 64, 5 * 6 * 64]
    assert [sizes[f"{of}stride_v"] for of in ("nhead_", "", "batch_")] == [32, 3 * 32, 7 * 3 * 32]
    found = problem_of(kernel.operation, kernel.shapes[0], "gfx942")
    assert [buffer.elements for buffer in found.buffers] == [3840, 2688, 1344, 1920, 60]
    assert found.flops == 2 * 2 * 6 * 5 * 7 * (64 + 32)


def test_a_stride_encloses_the_one_within(tmp_path: Path) -> None:
    sizes = loaded(tmp_path, shape=FIXED + "nhead_stride_q = 80\n").shapes[0].sizes
    assert (sizes["stride_q"], sizes["batch_stride_q"], sizes["stride_k"]) == (480, 2400, 192)


def test_packed_sequences(tmp_path: Path) -> None:
    kernel = loaded(tmp_path, 'lengths = "variable"\nbias = "elementwise"\n', VARIABLE)
    assert kernel.operation.size_arguments[:7] == (
        *("batch", "nhead_q", "nhead_k", "total_q", "total_k", "max_seqlen_q", "max_seqlen_k"),
    )
    sizes = {tensor.name: tensor.sizes for tensor in kernel.operation.tensors}
    assert sizes["Q"] == ("total_q", "nhead_q", "64")
    assert sizes["SeqStartK"] == ("batch + 1",)
    assert sizes["Bias"] == ("nhead_q", "total_q", "max_seqlen_k")


@pytest.mark.parametrize(
    ("more", "macs"),
    [
        ("", 2 * 6 * 5 * 7 * 128),
        ('mask = "causal"\n', 2 * 6 * 5 * 128 * 8 // 2),
        ('mask = "sliding"\nwindow = [2, 1]\n', 2 * 6 * 5 * 128 * 2),
        ('mask = "sliding"\nwindow = [-1, -1]\n', 2 * 6 * 5 * 7 * 128),
        ('mask = "sliding"\nwindow = [-1, 3]\n', 2 * 6 * 5 * 128 * 8 // 2),
    ],
)
def test_multiply_adds(tmp_path: Path, more: str, macs: int) -> None:
    kernel = loaded(tmp_path, more)
    assert problem_of(kernel.operation, kernel.shapes[0], "gfx942").flops == 2 * macs


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        ('mask = "causl"\n', "unknown-mask", "did you mean `causal`?"),
        ('aligned = "left"\n', "unknown-alignment", "unknown alignment"),
        ('lengths = "varlen"\n', "unknown-lengths", "unknown lengths"),
        ('bias = "full"\n', "unknown-bias", "unknown bias"),
        ('mask = "sliding"\n', "dimension-mismatch", "needs `window`"),
        ("window = [1, 0]\n", "dimension-mismatch", "`window` is that of"),
        ('mask = "sliding"\nwindow = [1]\n', "dimension-mismatch", "has two numbers"),
        ('soft_cap = 30.0\nbias = "alibi"\n', "dimension-mismatch", "goes without a bias"),
        ("descale = true\n", "dtype-mismatch", "is about f8"),
        ('dtype_o = "f8"\n', "unknown-dtype", "O in f16, bf16, f32"),
        ("head_v = 257\n", "out-of-range", "`head_v`"),
    ],
)
def test_wrong_values(tmp_path: Path, more: str, code: str, message: str) -> None:
    found = read(tmp_path, more).diagnostics
    assert any(one.code.endswith(code) and message in one.message for one in found), found


def test_f8_has_results_in_bf16(tmp_path: Path) -> None:
    text = TOP + OPERATION.replace("f16", "f8") + 'descale = true\nbias = "elementwise"\n' + INSTANCE
    (kernel,) = workspace(tmp_path, {"k.kernel.toml": text}).kernels
    dtypes = {tensor.name: tensor.dtype for tensor in kernel.operation.tensors}
    assert (dtypes["Q"], dtypes["O"], dtypes["Bias"], dtypes["ScaleV"]) == ("f8", "bf16", "f32", "f32")


def test_wrong_sizes(tmp_path: Path) -> None:
    kernel = loaded(tmp_path)
    sizes = with_defaults(kernel.operation, {**kernel.shapes[0].sizes, "nhead_k": 4})
    assert [name for name, _ in wrong_sizes(kernel.operation, sizes)] == ["nhead_q"]
    packed = loaded(tmp_path / "packed", 'lengths = "variable"\n', VARIABLE)
    for total, wrong in ((4, True), (5, False), (10, False), (11, True)):
        sizes = {**packed.shapes[0].sizes, "total_q": total}
        assert [name for name, _ in wrong_sizes(packed.operation, sizes)] == (["total_q"] if wrong else [])


@pytest.mark.parametrize("more", ["", 'lengths = "variable"\n', 'bias = "elementwise"\nlse = true\n'])
@pytest.mark.parametrize("pads", [True, False])
def test_sizes_to_verify_on(tmp_path: Path, more: str, pads: bool) -> None:
    operation = loaded(tmp_path, more, VARIABLE if "variable" in more else FIXED).operation
    kind = KINDS["attention"]
    assert kind.verified_sizes is not None
    parameters = {"kM0": 128, "kN0": 64, "kPadSeqLenQ": pads, "kPadSeqLenK": pads}
    found = kind.verified_sizes(operation, parameters)
    assert len(found) >= 27
    for name, given in found.items():
        sizes = with_defaults(operation, given)
        assert list(wrong_sizes(operation, sizes)) == [], name
        if "variable" not in more:
            assert pads or sizes["seqlen_q"] % 128 == sizes["seqlen_k"] % 64 == 0
