"""The C function's arguments, read from the rendered text."""

from __future__ import annotations

import pytest

from cases.gemm_case import GemmCase
from cases.gemm_rows import BLOCKED_SMALL, CASES
from ckwatch.exported.description import KernelSignature, signature_of
from ckwatch.model.errors import CkwatchError
from ckwatch.render.renderer import Renderer
from helpers.gemm_build import TEMPLATES, render

GEMM = GemmCase().operation()
SIZES = tuple((name, "int32_t") for name in ("M", "N", "K", "LDA", "LDB", "LDC", "LDD", "kBatch"))
TAIL = "size_t* workspace_size, uint8_t* workspace, hipStream_t stream"
INTS = ", ".join(f"int32_t {name}" for name, _ in SIZES)


@pytest.mark.parametrize(
    ("name", "pointers"),
    [
        ("f16", ("X", "W", "Y")),
        ("bf16 bias relu", ("X", "W", "Bias", "Y")),
        ("f8 row scales", ("X", "W", "inv_scale_x", "inv_scale_w", "Bias", "Y")),
        ("one buffer", ("X", "Bias", "Y")),
        ("reordered", ("Bias", "X", "W", "inv_scale_x", "inv_scale_w", "Y")),
    ],
)
def test_of_templates(name: str, pointers: tuple[str, ...]) -> None:
    case = CASES[name]
    rendered = render(Renderer((TEMPLATES,)), case.unit("cpp/gemm_blocked.cpp.j2", BLOCKED_SMALL))
    assert signature_of(rendered.text, rendered.symbol, case.operation()) == KernelSignature(pointers, SIZES)


def test_an_own_order_of_scalars() -> None:
    text = f'extern "C" int\nf(const uint16_t * a, uint16_t const*b,\n uint16_t* c, int32_t kBatch, int32_t M, {TAIL})'
    with pytest.raises(CkwatchError, match="begin with pointers to X \\(uint16_t\\)"):
        signature_of(text, "f", GEMM)
    text = text.replace("uint16_t const*b", "const uint16_t*b /* int32_t x, */")
    found = signature_of(text, "f", GEMM)
    assert found == KernelSignature(("X", "W", "Y"), (("kBatch", "int32_t"), ("M", "int32_t")))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (f"const uint16_t* X, uint16_t* Y, {INTS}, {TAIL}", "begin with pointers to X (uint16_t), W (uint16_t), Y"),
        (f"const uint16_t* W, const uint16_t* X, uint16_t* Y, {INTS}, {TAIL}", "begin in the order X, W, Y"),
        (f"const uint16_t* X, const float* W, uint16_t* Y, {INTS}, {TAIL}", "begin with pointers to"),
        (f"const uint16_t* X, const uint16_t* W, uint16_t* Y, {INTS}, void* stream", "end with size_t* workspace_size"),
        (f"const uint16_t* X, const uint16_t* W, uint16_t* Y, int64_t M, {TAIL}", "and there is int64_t M"),
        (f"const uint16_t* X, const uint16_t* W, uint16_t* Y, int32_t Q, {TAIL}", "and there is int32_t Q"),
        (f"const uint16_t* X, const uint16_t* W, uint16_t* Y, int32_t M, {TAIL}", "the runtime arguments kBatch"),
        (f"const uint16_t* X, const uint16_t* W, uint16_t* Y, {INTS}, int32_t (&more)[3], {TAIL}", "does not declare"),
        (f"const uint16_t* X, const uint16_t* W, uint16_t* Y, {INTS}, int32_t more[3], {TAIL}", "is not understood"),
    ],
)
def test_other_signatures(arguments: str, message: str) -> None:
    with pytest.raises(CkwatchError) as caught:
        signature_of(f'extern "C" int f({arguments}) {{ return 0; }}', "f", GEMM)
    assert message in caught.value.message


def test_no_declaration() -> None:
    with pytest.raises(CkwatchError, match="the rendered text does not declare"):
        signature_of("int g() { return 0; }  // int f(int32_t M)", "f", GEMM)
