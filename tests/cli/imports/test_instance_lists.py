"""CK's lists of instances → kernel files: what goes into `[operation]`, names, defaults, what is left out."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from cases.ck4inductor_fields import GEMM
from ckwatch.cli.imports.instance_lists import (
    FAMILIES,
    Fields,
    ImportPlan,
    Selection,
    TargetTemplate,
    plan_import,
    spellings,
)

CK = TargetTemplate("ck/gemm_universal.hip.j2", has_ck_names=True, words=None)
INDUCTOR = TargetTemplate("my.hip.j2", has_ck_names=False, words=None)
EVERY = Selection(lambda _: True, None, 1000)


def planned(*listed: Fields, names: TargetTemplate = CK, selection: Selection = EVERY) -> ImportPlan:
    return plan_import(FAMILIES["gemm"], listed, names, selection)


def tables(plan: ImportPlan) -> dict[str, dict[str, Any]]:
    return {file.name: tomllib.loads(file.text) for file in plan.files}


def only(plan: ImportPlan) -> dict[str, Any]:
    (found,) = tables(plan).values()
    return found


def instance_names(plan: ImportPlan) -> list[str]:
    return [one["name"] for one in only(plan)["instance"]]


def test_fields_become_the_operation_and_parameters_under_the_names_of_ck() -> None:
    found = only(planned(GEMM))
    assert found["template"] == "ck/gemm_universal.hip.j2"
    assert found["operation"] == {
        "kind": "gemm",
        "a": {"dtype": "f16", "layout": "row"},
        "b": {"dtype": "f16", "layout": "col"},
        "c": {"dtype": "f16", "layout": "row"},
    }
    assert found["shape"] == [{"name": "4096", "M": 4096, "N": 4096, "K": 4096}]
    assert "defaults" not in found
    (instance,) = found["instance"]
    expected = {
        "name": "v3_128x128x64_intrawave",
        "GemmSpec": "MNKPadding",
        "BlockSize": 256,
        "MPerBlock": 128,
        "NPerBlock": 128,
        "KPerBlock": 64,
        "AK1": 8,
        "BK1": 8,
        "MPerXDL": 32,
        "NPerXDL": 32,
        "MXdlPerWave": 2,
        "NXdlPerWave": 2,
        "ABlockTransferThreadClusterLengths_AK0_M_AK1": [8, 32, 1],
        "ABlockLdsExtraM": False,
        "CDEShuffleBlockTransferScalarPerVectors": [8],
        "BlkGemmPipeSched": "Intrawave",
        "BlkGemmPipelineVer": "v3",
    }
    assert instance.items() >= expected.items()
    of_the_operation = ("ALayout", "DsLayout", "ADataType", "GemmAccDataType", "CShuffleDataType", "ComputeTypeA")
    assert not instance.keys() & {*of_the_operation, *GEMM}


def test_a_template_of_inductor_gets_the_fields_as_they_are() -> None:
    found = only(planned({**GEMM, "a_compute_dtype": "F8"}, names=INDUCTOR))
    (instance,) = found["instance"]
    assert found["template"] == "my.hip.j2"
    assert instance["block_gemm_pipeline_version"] == "BlockGemmPipelineVersion::v3"
    assert instance["a_block_lds_extra_m"] == 0
    assert instance["a_compute_dtype"] == "F8"
    given = {name for name, value in GEMM.items() if value is not None and not isinstance(value, str)}
    assert {*given} - {"ds_layouts", "ds_element_dtypes"} <= {*instance}


@pytest.mark.parametrize(
    ("types", "compute", "expected"),
    [
        (("F8", "F8", "BF16"), "F8", {}),
        (("F8", "F8", "BF16"), None, {"ComputeTypeA": "BF16", "ComputeTypeB": "BF16"}),
        (("F16", "F8", "F16"), None, {}),
        (("F16", "F8", "F16"), "F8", {"ComputeTypeA": "F8", "ComputeTypeB": "F8"}),
    ],
)
def test_compute_types_are_written_where_the_template_would_choose_others(
    types: Sequence[str], compute: str | None, expected: dict[str, str]
) -> None:
    a, b, c = types
    fields = {**GEMM, "a_element_dtype": a, "b_element_dtype": b, "c_element_dtype": c, "c_shuffle_dtype": c}
    (instance,) = only(planned({**fields, "a_compute_dtype": compute}))["instance"]
    assert {name: value for name, value in instance.items() if name.startswith("Compute")} == expected


def test_instances_with_one_operation_share_a_file() -> None:
    bf16 = dict.fromkeys(("a_element_dtype", "b_element_dtype", "c_element_dtype", "c_shuffle_dtype"), "BF16")
    f8 = dict.fromkeys(("a_element_dtype", "b_element_dtype"), "F8")
    listed = [GEMM, {**GEMM, **bf16}, {**GEMM, **f8}, {**GEMM, "b_element_dtype": "F8"}, {**GEMM, "a_layout": "Col"}]
    names = ["gemm_bf16_rcr", "gemm_f16_ccr", "gemm_f16_f8_f16_rcr", "gemm_f16_rcr", "gemm_f8_f16_rcr"]
    assert [*tables(planned(*listed))] == names


def test_names_say_what_tells_instances_apart() -> None:
    specs = [{**GEMM, "gemm_specialization": f"GemmSpecialization::{name}"} for name in ("Default", "MPadding")]
    wider = {**GEMM, "block_size": 128, "m_xdl_per_wave": 4}
    assert instance_names(planned(*specs)) == ["v3_128x128x64_intrawave_default", "v3_128x128x64_intrawave_mpadding"]
    assert instance_names(planned(GEMM, wider)) == ["v3_128x128x64_intrawave_b128", "v3_128x128x64_intrawave_b256"]
    assert instance_names(planned(GEMM, {**GEMM, "m_xdl_per_wave": 4})) == [
        "v3_128x128x64_intrawave_wave2x2",
        "v3_128x128x64_intrawave_wave4x2",
    ]
    unnamed = {**GEMM, "c_shuffle_dtype": "F32"}
    assert instance_names(planned(GEMM, unnamed)) == ["v3_128x128x64_intrawave", "v3_128x128x64_intrawave_2"]


def test_names_do_not_depend_on_what_is_selected() -> None:
    other = {**GEMM, "block_size": 128}
    selection = Selection(lambda fields: fields["block_size"] == 256, None, 1000)
    assert instance_names(planned(GEMM, other, selection=selection)) == ["v3_128x128x64_intrawave_b256"]


def test_names_do_not_depend_on_the_order_of_the_list() -> None:
    listed = [{**GEMM, "m_per_block": m, "block_size": block} for m in (64, 128) for block in (128, 256)]
    assert planned(*listed) == planned(*reversed(listed))


def test_what_most_instances_have_is_a_default() -> None:
    listed = [{**GEMM, "m_per_block": 64, "a_k1": 4}, {**GEMM, "m_per_block": 128}, {**GEMM, "m_per_block": 256}]
    found = only(planned(*listed, {**GEMM, "m_per_block": 512, "a_compute_dtype": "F8"}))
    assert found["defaults"]["AK1"] == 8
    assert [one.get("AK1") for one in found["instance"]] == [4, None, None, None]
    assert [one["MPerBlock"] for one in found["instance"]] == [64, 128, 256, 512]
    assert "ComputeTypeA" not in found["defaults"]
    assert found["instance"][3]["ComputeTypeA"] == "F8"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"b_element_dtype": "I4"}, "b_element_dtype = I4, which no dtype of [operation] is"),
        ({"acc_dtype": "TF32"}, "acc_dtype = TF32, which no dtype of [operation] is"),
        ({"c_elementwise_op": "Relu"}, "c_elementwise_op = Relu"),
        ({"ds_element_dtypes": ("F16",)}, "ds_element_dtypes = ('F16',)"),
        ({"a_new_field": 1}, "DeviceGemmMultiD_Xdl_CShuffle_V3 has no a_new_field"),
        ({}, "the same as another one"),
    ],
)
def test_what_a_kernel_file_cannot_say_is_left_out_and_counted(changes: dict[str, Any], reason: str) -> None:
    plan = planned(GEMM, {**GEMM, **changes}, {**GEMM, "m_per_block": 64})
    assert plan.left_out == {reason: 1}
    assert [file.instances for file in plan.files] == [2]


def test_what_was_not_wanted_is_not_counted() -> None:
    selection = replace(EVERY, wanted=lambda fields: fields["m_per_block"] == 64)
    plan = planned(GEMM, GEMM, {**GEMM, "b_element_dtype": "I4"}, {**GEMM, "m_per_block": 64}, selection=selection)
    assert plan.left_out == {}


def test_parameters_that_the_template_does_not_read_are_no_instance() -> None:
    names = TargetTemplate("my.hip.j2", has_ck_names=False, words={*GEMM} - {"a_k1", "b_k1"})
    assert planned(GEMM, names=names) == ImportPlan((), {"my.hip.j2 reads no a_k1, b_k1": 1})


def test_a_limit_spreads_over_the_list() -> None:
    listed = [{**GEMM, "m_per_block": 32 * count} for count in range(1, 9)]
    plan = planned(*listed, selection=replace(EVERY, limit=3))
    assert [one["MPerBlock"] for one in only(plan)["instance"]] == [32, 96, 192]
    assert plan.left_out == {"more than --limit allows": 5}


def test_more_instances_than_a_file_may_have_are_several_files() -> None:
    listed = [{**GEMM, "m_per_block": 32 * count} for count in range(1, 6)]
    plan = planned(*listed, selection=replace(EVERY, most_in_a_file=2))
    assert [(file.name, file.instances) for file in plan.files] == [
        ("gemm_f16_rcr", 2),
        ("gemm_f16_rcr_2", 2),
        ("gemm_f16_rcr_3", 1),
    ]


def test_an_accumulator_is_written_where_it_is_not_the_usual_one() -> None:
    assert only(planned({**GEMM, "acc_dtype": "F16"}))["operation"]["accumulator"] == "f16"


def test_convolutions_have_dimensions_and_layouts() -> None:
    fields = {
        **{name: value for name, value in GEMM.items() if not name.startswith(("c_el", "c_layout", "a_k1", "b_k1"))},
        "n_dim_spatial": 2,
        "a_layout": "NHWGC",
        "b_layout": "GKYXC",
        "e_layout": "NHWGK",
        "a_element_dtype": "int8_t",
        "b_element_dtype": "int8_t",
        "e_element_dtype": "int8_t",
        "acc_dtype": "int32_t",
        "c_shuffle_dtype": "int8_t",
        "cde_elementwise_op": "OutElementOp",
    }
    plan = plan_import(FAMILIES["convolution"], [fields], INDUCTOR, EVERY)
    found = tables(plan)["convolution_2d_i8_nhwgc"]
    assert found["operation"] == {
        "kind": "grouped_convolution",
        "dimensions": 2,
        "a": {"dtype": "i8", "layout": "NHWGC"},
        "b": {"dtype": "i8", "layout": "GKYXC"},
        "c": {"dtype": "i8", "layout": "NHWGK"},
    }
    assert [shape["name"] for shape in found["shape"]] == ["3x3", "1x1"]
    other = {**fields, "b_layout": "GKCYX"}
    both = plan_import(FAMILIES["convolution"], [fields, other], INDUCTOR, EVERY)
    assert [*tables(both)] == ["convolution_2d_i8_nhwgc_gkcyx_nhwgk", "convolution_2d_i8_nhwgc_gkyxc_nhwgk"]


def test_fields_go_by_both_names() -> None:
    known = spellings(FAMILIES["gemm"], GEMM)
    assert known["MPerBlock"] == known["m_per_block"] == "m_per_block"
    assert known["BlkGemmPipelineVer"] == "block_gemm_pipeline_version"
