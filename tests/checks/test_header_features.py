"""What a unit needs of headers and they lack: one sentence, at its place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ckwatch.checks.static_checks import static_checks
from ckwatch.headers.features import FEATURES
from ckwatch.headers.searched_headers import SearchedHeaders
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.render.renderer import Renderer
from helpers.units import unit

CORE = {"ck/ck.hpp": "#if defined(__gfx942__)\n#endif\n"}
PIPELINE = FEATURES["gemm-CompV6"]
OPERATION = "ck/tensor_operation/gpu/device/impl/device_gemm_multiple_d_xdl_cshuffle_v3.hpp"
HIP_5_7 = {
    "hip_runtime.h": "",
    "amd_detail/amd_device_functions.h": "// hip_assert.h\n",
    "ck/utility/data_type.hpp": '#include "ck/utility/amd_ck_fp8.hpp"\n',
    "ck/utility/amd_ck_fp8.hpp": "inline void f() { __hip_assert(false); }\n",
}


def found(folder: Path, text: str, headers: dict[str, str], arch: str = "gfx942") -> list[Diagnostic]:
    for name, content in {**CORE, **headers, "t.hip.j2": text}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    subject = replace(unit("t.hip.j2", Pipeline="CompV6"), arch=arch)
    renderer = Renderer((folder,), header_folders=(folder,))
    outcome = renderer.render(subject)
    checked = static_checks(subject, outcome, rules=True, builtin="/builtin", headers=SearchedHeaders((str(folder),)))
    return [one for one in checked.diagnostics if one.severity is Severity.ERROR]


@pytest.mark.parametrize(
    ("text", "headers", "arch", "message"),
    [
        (
            "#include <ck/ck.hpp>\n",
            {},
            "gfx1250",
            "knows no gfx1250 (ck/ck.hpp); it is in Composable Kernel of ROCm 10.1.",
        ),
        ('#include "ck/ck.hpp"\n#include "ck/no.hpp"\n', {}, "gfx942", "has no ck/no.hpp"),
        (
            "{{ need_feature('gemm-CompV6', 'Pipeline') }}",
            {"ck_tile/core.hpp": ""},
            "gfx942",
            f"has no {PIPELINE.header}; it is in Composable Kernel 1.2.0 of ROCm 7.2 and later",
        ),
        (
            f'#include "{OPERATION}"\nusing Gemm = DeviceGemmMultiD_Xdl_CShuffle_V3</* ALayout */ Row, /* KPerBlock */ 64>;',
            {OPERATION: "template <class ALayout, int MPerBlock> struct DeviceGemmMultiD_Xdl_CShuffle_V3 {};"},
            "gfx942",
            "takes no `KPerBlock`",
        ),
        (
            '#include "ck/ck.hpp"\n#include "ck/utility/data_type.hpp"\n',
            HIP_5_7,
            "gfx942",
            "ck/utility/amd_ck_fp8.hpp uses `__hip_assert`, and amd_detail/amd_device_functions.h in",
        ),
    ],
)
def test_one_sentence(text: str, headers: dict[str, str], arch: str, message: str, tmp_path: Path) -> None:
    (diagnostic,) = found(tmp_path, f"{text}\n{{# {{{{ Pipeline }}}} #}}{{{{ Pipeline }}}}", headers, arch)
    assert (diagnostic.source, diagnostic.code[:7]) == (Source.RULE, "rule/ck")
    assert message in diagnostic.message


@pytest.mark.parametrize("text", ["#define __hip_assert(COND)\n", '#include "ck/utility/other.hpp"\n'])
def test_a_macro_that_a_unit_defines_or_does_not_need(text: str, tmp_path: Path) -> None:
    included = '#include "ck/utility/data_type.hpp"\n' if text.startswith("#define") else ""
    headers = {**HIP_5_7, "ck/utility/other.hpp": ""}
    assert not found(tmp_path, f'{text}#include "ck/ck.hpp"\n{included}{{{{ Pipeline }}}}', headers)


def test_the_place_is_the_parameter_that_asks(tmp_path: Path) -> None:
    text = "{{ need_feature('gemm-CompV6', 'Pipeline') }}{{ need_feature('stream-k') }}"
    (diagnostic,) = found(tmp_path, text, {"ck_tile/core.hpp": ""})
    subject = unit("t.hip.j2", Pipeline="CompV6")
    assert diagnostic.span == subject.instance.spans.get("Pipeline", subject.kernel.template_span)
    assert diagnostic.related[0].span is not None
    assert diagnostic.related[0].span.path == str(tmp_path / "t.hip.j2")


def test_an_unknown_feature_is_an_error_of_the_template(tmp_path: Path) -> None:
    (tmp_path / "t.hip.j2").write_text("{{ has_feature('gemm-CompV7') }}")
    (diagnostic,) = Renderer((tmp_path,)).render(unit("t.hip.j2")).diagnostics
    assert diagnostic.message == "the string \"gemm-CompV7\" is not a feature of headers; did you mean 'gemm-CompV6'?"
