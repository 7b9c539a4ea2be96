"""The CUTLASS example, exported and called on tensors of the real PyTorch on a real GPU, where there are both."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from ckwatch.cli import main

ROOT = Path(__file__).parents[3]
torch: Any = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not torch.cuda.is_available() or torch.version.hip is not None, reason="no NVIDIA GPU"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of exported modules."""
    return tmp_path_factory.mktemp("exported")


@pytest.fixture
def module(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Y = relu(X · W + Bias) in bf16."""
    unit = "gemm_bf16_bias_relu_split_k/128x128x32@sm_90a"
    assert (
        main(["export", unit, "-C", str(ROOT / "examples/cuda"), "--out", str(folder), "--name", "cutlass_gemm"]) == 0
    )
    monkeypatch.syspath_prepend(str(folder))
    return importlib.import_module("cutlass_gemm")


def tensors() -> tuple[Any, Any, Any]:
    """X, W and Bias."""
    torch.manual_seed(1)
    sizes = ((512, 1024), (1024, 768), (768,))
    x, w, bias = (torch.randn(size, device="cuda").div(8).to(torch.bfloat16) for size in sizes)
    return x, w, bias


@pytest.mark.parametrize("slices", [1, 4])
def test_results(module: Any, slices: int) -> None:
    x, w, bias = tensors()
    expected = torch.relu(x.float() @ w.float() + bias.float())
    y = module.gemm_bf16_bias_relu_split_k(x, w, bias, kBatch=slices)
    assert (y.dtype, y.device) == (torch.bfloat16, x.device)
    torch.testing.assert_close(y.float(), expected, rtol=2e-2, atol=2e-2)


def test_streams(module: Any) -> None:
    """Work of another stream is awaited by being on that stream, and by nothing else."""
    x, w, bias = tensors()
    expected = torch.relu(x.float() @ w.float() + bias.float())
    late = torch.zeros_like(x)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late.copy_(x)
        y = module.gemm_bf16_bias_relu_split_k(late, w, bias, kBatch=4)
    assert not stream.query()
    stream.synchronize()
    torch.testing.assert_close(y.float(), expected, rtol=2e-2, atol=2e-2)
    late.zero_()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late.copy_(x)
    y = module.gemm_bf16_bias_relu_split_k(late, w, bias, kBatch=4, stream=stream)
    stream.synchronize()
    torch.testing.assert_close(y.float(), expected, rtol=2e-2, atol=2e-2)


def test_refusals(module: Any) -> None:
    x, w, bias = tensors()
    with pytest.raises(module.UnsupportedError, match="does not support M=512"):
        module.gemm_bf16_bias_relu_split_k(x, w, bias, kBatch=0)
    with pytest.raises(ValueError, match="X is in host memory"):
        module.gemm_bf16_bias_relu_split_k(x.cpu(), w, bias)
