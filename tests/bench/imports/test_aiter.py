"""AITER's tables of tuned GEMMs, in the forms that its versions write. The times are inventions of the tests."""

from __future__ import annotations

import pytest

from ckwatch.bench.imports.aiter import read_aiter
from ckwatch.bench.imports.records import LeftOut, TimingsFileError
from ckwatch.checks.aiter_instances import read_name
from helpers.each_row import each_row

ROWWISE = "a8w8_rowwise_256x16x64x512_16x16_1x1_32x8x1_32x8x1_1x16x1x16_4x4x1_1x1_intrawave_v3"
PRESHUFFLED = "a8w8_bpreshuffle_256x64x128x128_16x16_16x16_8x32x1_8x32x1_1x32x1x8_8x8x1_2x1_intrawave_v1"
ASM = "_ZN5aiter42I8gemm_bf16_perTokenI8_BpreShuffle_128x128E"
OLD = "cu_num,M,N,K,kernelId,splitK,us,kernelName,tflops,bw,errRatio"


def test_an_old_table() -> None:
    (one,) = read_aiter(f"{OLD}\n256,1,100,5120,34,2,8.7502,{ROWWISE},0.12,59.12,0\n").records
    assert (one.device, one.arch, one.dtype, one.kernel) == ("MI355X", "gfx950", "i8", "a8w8_rowwise")
    assert (one.sizes, one.runtime, one.time_us) == ({"M": 1, "N": 100, "K": 5120}, {"kBatch": 4}, 8.7502)
    assert one.parameters["ABlockTransferThreadClusterLengths_AK0_M_AK1"] == (32, 8, 1)
    assert one.parameters["BlkGemmPipelineVer"] == "v3"
    assert one.parameters["AK1"] == 16  # 512 / 32
    assert "GemmSpec" not in one.parameters


def test_another_header_with_what_spreadsheets_do_to_it() -> None:
    text = (
        "\ufeffgfx,compute_units,batch,M,N,K,dtype,splitK_log2,instance,us,note\r\n"
        f'gfx942,80,1,16,1280,8192,float8_e4m3fnuz,0,"{PRESHUFFLED}",12.5,"a, b"\r\n\r\n'
        f"gfx942,304,1,16,1280,8192.0,torch.int8,,{PRESHUFFLED},12.5\r\n"
    )
    read = read_aiter(text)
    assert [(one.device, one.dtype, one.sizes["K"]) for one in read.records] == [
        ("MI308X", "f8", 8192),
        ("MI300X", "i8", 8192),
    ]
    assert read.left_out == ()


def test_a_batch_is_a_size() -> None:
    name = "bf16_batched_64x16x16x64_16x16_1x1_8x8x1_8x8x1_1x16x1x4_4x4x1_1x1_interwave_v2"
    (one,) = read_aiter(f"cu_num,B,M,N,K,us,kernelName\n304,16,1,1280,8192,111.9,{name}\n").records
    assert (one.sizes["B"], one.dtype) == (16, "bf16")


LONG = "9" * 5000
SHOWN = "9" * 59 + "…"


@each_row(
    ("row", "why"),
    [
        (f"256,1,100,5120,34,0,,{ROWWISE}", "us is empty"),
        (f"256,1,100,5120,34,0,inf,{ROWWISE}", "us is `inf`, no time"),
        (f"256,1,100,5120,34,0,-1,{ROWWISE}", "us is `-1`, no time"),
        (f"256,-1,100,5120,34,0,8.7,{ROWWISE}", "M is `-1`, no whole number from 1"),
        (f"256,{LONG},100,5120,34,0,8.7,{ROWWISE}", f"M is `{SHOWN}`, no whole number from 1 to 2147483647"),
        (f"256,1,100,5120,34,0,{LONG},{ROWWISE}", f"us is `{SHOWN}`, no time"),
        (f"256,1,100,,34,0,8.7,{ROWWISE}", "K is empty"),
        ("256,1,100,5120,34,0,8.7,", "no kernel is named"),
        ("256,1,100", "no kernel is named"),
        (
            f"256,8192,8192,8192,34,0,8.7,{ROWWISE}",
            "8.7 µs would be 126,381 TFLOP/s, of which MI355X has 5,033",
        ),
    ],
)
def test_a_row_that_says_nothing(row: str, why: str) -> None:
    read = read_aiter(f"{OLD}\n256,1,200,5120,34,0,9.0,{ROWWISE},,,\n{row}\n")
    assert read.left_out == (LeftOut(3, why),)
    assert len(read.records) == 1


def test_an_unknown_dtype_and_an_open_quote() -> None:
    header = "cu_num,M,N,K,q_dtype_w,us,kernelName\n"
    assert read_aiter(f"{header}80,1,2,3,torch.int3,1.0,{ROWWISE}\n").left_out[0].why == "unknown dtype `torch.int3`"
    assert read_aiter(f'{header}80,1,2,3,torch.int8,1.0,"{ROWWISE}\n').records[0].dtype == "i8"


def test_a_kernel_that_is_not_ck_s_is_of_the_operation_of_its_table() -> None:
    rows = f"80,64,256,5120,torch.int8,1,3,5.0,{ASM}\n80,64,256,5120,torch.int8,1,0,5.0,{PRESHUFFLED}\n"
    asm, _ = read_aiter(f"cu_num,M,N,K,q_dtype_w,kernelId,splitK,us,kernelName\n{rows}").records
    assert (asm.instance, asm.kernel, asm.parameters, asm.runtime) == (ASM, "a8w8_bpreshuffle", {}, {"splitK": 3})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("M,N,K\n1,2,3\n", "it has no column `us`, `kernelName` or `instance`"),
        ("token,us\n", "it has no column `M`, `N`, `K`, `kernelName` or `instance`"),
    ],
)
def test_another_text(text: str, why: str) -> None:
    with pytest.raises(TimingsFileError, match=why):
        read_aiter(text)


def test_a_name_with_the_map_of_waves_and_one_without() -> None:
    parts = "a8w8_blockscale_1x128x128_256x16x64x256_16x16_16x16{}_16x16x1_16x16x1_1x16x1x16_4_1x1_intrawave_v1"
    old, new = read_name(parts.format("")), read_name(parts.format("_1x2"))
    assert old is not None
    assert new is not None
    assert new.parameters == {**old.parameters, "MXdlPerWave": 1, "NXdlPerWave": 2}
    assert old.parameters["ScaleBlockN"] == 128
    unknown = read_name("a8w8_blockscale_bpreshuffle_1x128x128_256x16x64x256_16x16_4_intrawave_v1")
    assert unknown is not None
    assert (unknown.list, unknown.parameters) == ("a8w8_blockscale_bpreshuffle", {})
    assert read_name(ASM) is None
