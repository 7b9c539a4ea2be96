"""Hooks mean what they mean in PyTorch Inductor's ROCm backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ckwatch_templates
from ckwatch.model.kernels import Operation
from ckwatch.render.outcome import RenderOutcome
from ckwatch.render.renderer import Renderer
from helpers.units import gemm, tensor, unit

SIZES = '["int32_t M", "int32_t N", "int32_t K", "int32_t LDA", "int32_t LDB", "int32_t LDC", "int32_t LDD"]'
ALL = "[X, W, inv_scale_x, inv_scale_w, Bias]"
NAMES = '"a, b, sa, sb, d, y"'
ARGUMENTS = (
    "int32_t M, int32_t N, int32_t K, int32_t LDA, int32_t LDB, int32_t LDC, int32_t LDD, int32_t kBatch, "
    "size_t* workspace_size, uint8_t* workspace, hipStream_t stream"
)


def biased(**settings: Any) -> Operation:
    operation = gemm(settings=settings)
    bias = tensor("Bias", "f32", sizes=("N",), strides=("1",))
    return gemm(settings=settings, inputs=(*operation.inputs[:-1], ("Bias", bias)))


def outcome(
    folder: Path, text: str, operation: Operation | None = None, name: str = "a.hip.j2", **parameters: Any
) -> RenderOutcome:
    (folder / name).write_text(text)
    return Renderer((folder, ckwatch_templates.ROOT)).render(unit(name, operation or biased(), **parameters))


def text_of(
    folder: Path, text: str, operation: Operation | None = None, name: str = "a.hip.j2", **parameters: Any
) -> str:
    found = outcome(folder, text, operation, name, **parameters)
    assert found.rendered is not None, found.diagnostics
    return found.rendered.text.replace(found.rendered.symbol, "KERNEL_NAME")


PLAIN = f"int KERNEL_NAME(const uint16_t* a, const uint16_t* b, const float* d, uint16_t* y, {ARGUMENTS})"
CALLS = {
    f"{ALL}, [Y], {NAMES}": PLAIN,
    f"{ALL}, [Y], {NAMES}, none, {SIZES}": PLAIN,
    f"{ALL}, [Y], {SIZES}, {NAMES}": PLAIN,
    f"{ALL}, [Y], {SIZES}, {NAMES}, none": PLAIN,
    f"{ALL}, [Y], {SIZES}, names_str={NAMES}": PLAIN,
    f"inputs={ALL}, outputs=[Y], names_str={NAMES}, size_args={SIZES}": PLAIN,
}


@pytest.mark.parametrize("call", CALLS)
def test_def_kernel_takes_both_orders_of_arguments(call: str, tmp_path: Path) -> None:
    assert text_of(tmp_path, f"{{{{ def_kernel({call}) }}}}") == CALLS[call]


REORDERED = f"int KERNEL_NAME(const float* d, const uint16_t* a, const uint16_t* b, uint16_t* y, {ARGUMENTS})"


@pytest.mark.parametrize("order", ["[2, 0, 1]", "[4, 0, 1, 2, 3]", "input_reorder"])
def test_the_order_of_three_inputs_stands_for_that_of_five(order: str, tmp_path: Path) -> None:
    operation = biased(input_reorder=(4, 0, 1, 2, 3))
    for call in (f"{ALL}, [Y], {NAMES}, {order}", f"{ALL}, [Y], {SIZES}, {NAMES}, {order}"):
        assert text_of(tmp_path, f"{{{{ def_kernel({call}) }}}}", operation) == REORDERED


def test_def_kernel_still_knows_what_is_wrong(tmp_path: Path) -> None:
    for call, message in {
        f"{ALL}, [Y], {SIZES}, {NAMES}, none, 1": "def_kernel takes 5 arguments",
        f"{ALL}, [Y], {SIZES}, size_args={SIZES}": "not a list",
        f"{ALL}, [Y], {SIZES}, 7": "names_str must be one string",
        f"{ALL}, [Y], ['int32_t M'], {NAMES}": "size_args do not declare N",
        f"{ALL}, [Y], {NAMES}, [2, 0]": "input_reorder [2, 0] must hold each index",
    }.items():
        (first, *_) = outcome(tmp_path, f"{{{{ def_kernel({call}) }}}}").diagnostics
        assert message in first.message


DECLARED = f"{{% set signature = def_kernel({ALL}, [Y], {NAMES}) %}}"
PRINTED = {
    "{{ get_signature() == signature }} {{ get_signature }}": f"True {PLAIN}",
    "{{ kernel_name }} {{ gfx9_threads_per_warp }}": "KERNEL_NAME 64",
    "{{ arg_name(X) }} {{ arg_name(inv_scale_x) is none }} {{ ptr(inv_scale_x) }} {{ ptr(Bias) }}": "a True nullptr d",
    "{{ size(X, 0) }} {{ size(X, 0, -1) }} {{ size(X, 1, 0) }} {{ size(X, 1, 0, default_value=1) }}": "M M * K 0 1",
    "{{ size(inv_scale_x, 0) }} {{ size(inv_scale_x, 0, -1, 1) }} {{ size(none, 0, default_value='N') }}": "0 1 N",
    "{{ stride(X, 0) }} {{ stride(inv_scale_x, 0) }} {{ stride(inv_scale_x, 0, default_value=7) }}": "LDA 0 7",
    "{{ contiguous_stride(['B', 'M + 1', 4]) }} {{ contiguous_stride(X.sizes)[0] }}": "['(M + 1) * 4', '4', '1'] K",
    "{{ X.get_name() }} {{ W.get_dtype() }} {{ X.get_size()[-1] }} {{ X.get_stride()[0] }}": "X f16 K LDA",
    "{{ W.get_layout().stride[-2] }} {{ W.get_layout().size[-1] }} {{ Bias.get_layout().dtype }}": "1 N f32",
    "{{ check_not_null(inv_scale_x) }}|{{ check_not_null(Y)[:16] }}": "|if (y == nullptr",
    "{{ template_argument('ds_layouts') }} {{ template_argument('Kinds') }}": "/* ds_layouts */ Tuple<> /* Kinds */ Tuple<F16, F32>",
    "{{ unsupported('no \"b\" here', 'b.layout', 'b') }}": 'static_assert(false, "no \\"b\\" here");  // [operation] b.layout b',
    "{{ template_argument('Nested') }} {{ template_argument('Empty') }}": "/* Nested */ Tuple<S<1, 2>, S<3>> /* Empty */ S<>",
}  # fmt: skip
PARAMETERS: dict[str, Any] = {"ds_layouts": (), "Kinds": ("F16", "F32"), "Nested": ((1, 2), (3,)), "Empty": ()}


@pytest.mark.parametrize("template", PRINTED)
def test_what_hooks_give(template: str, tmp_path: Path) -> None:
    operation = biased()
    operation = gemm(
        inputs=tuple((name, one) if name != "W" else (name, tensor("W", layout="col", sizes=("K", "N"), strides=("1", "LDB"))) for name, one in operation.inputs)
    )  # fmt: skip
    assert text_of(tmp_path, DECLARED + template, operation, **PARAMETERS) == PRINTED[template]


def test_a_pointer_that_is_no_argument_is_not_checked(tmp_path: Path) -> None:
    assert text_of(tmp_path, "{% set _ = def_kernel([X, W], [Y]) %}|{{ check_not_null(Bias) }}|", gemm()) == "||"
    (before,) = outcome(tmp_path, "{{ check_not_null(X) }}").diagnostics
    assert "def_kernel must list it" in before.message


@pytest.mark.parametrize("name", ["header", "headers", "globals"])
@pytest.mark.parametrize(("file", "family"), [("a.hip.j2", "ck_library"), ("a.cu.j2", "cu"), ("a.cpp.j2", "cpp")])
def test_a_hook_that_is_not_called_prints_what_its_call_gives(
    name: str, file: str, family: str, tmp_path: Path
) -> None:
    expected = text_of(tmp_path, f"{{{{ {name}('{family}') }}}}", name=file)
    for printed in (name, f"{name}()", f"kernel.{name}", f"'' ~ {name}", f"{name} | trim | default('')"):
        assert text_of(tmp_path, f"{{{{{printed}}}}}", name=file).strip() == expected.strip()


def test_the_map_of_a_hook_that_is_not_called(tmp_path: Path) -> None:
    found = outcome(tmp_path, "\n {{globals}}").rendered
    assert found is not None
    at = found.text.index("#define PT_EXPORT")
    origin = found.source_map.origin_of_range(at, at + 17)
    assert origin is not None
    assert Path(origin.span.path).name == "globals_cpp.j2"
    assert [link.site.label for link in origin.chain][-1] == "globals"
    assert str(origin.chain[-1].site.span.start) == "2:2"


def test_names_of_inductor_are_all_there(tmp_path: Path) -> None:
    text = text_of(tmp_path, "{{headers}}{{globals}}")
    for name in (
        *(
            "TF32",
            "PassThrough",
            "Bilinear",
            "Scale",
            "ScaleAdd",
            "MultiplyMultiply",
            "MultiplyMultiplyAdd",
            "S",
            "Tuple",
        ),
        *("BlockGemmPipelineScheduler", "BlockGemmPipelineVersion", "GemmSpecialization", "Row", "Col", "F8", "BF16"),
    ):
        assert f"using {name} " in " ".join(text.split()) or f"struct {name} " in text
    for library in ("check_err", "device_memory", "fill", "host_tensor", "host_tensor_generator", "literals"):
        assert f'#include "ck/library/utility/{library}.hpp"' in text
    assert "kDEBUG_LOG" in text


def test_all_undefined_names_are_reported_at_once(tmp_path: Path) -> None:
    text = "{{version_comment}}\n{{instance_definition}}\nPT_EXPORT {{kernel_definition}} {\n  {{instance_type}} {};\n}"
    found = outcome(tmp_path, text).diagnostics
    assert [one.code for one in found] == ["template/undefined"] * 4
    assert [one.span.start.line for one in found] == [0, 1, 2, 3]


def test_parameters_have_the_order_in_which_they_were_written(tmp_path: Path) -> None:
    assert text_of(tmp_path, "{{ parameters | join(' ') }}", b=1, a=2, C=3) == "b a C"
