"""Findings in AITER's tables, with the place and the words of each kind. Times are inventions of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.bench.imports.aiter_audit import KEPT, AuditedTable, TableAudit, cell_bounds, known_part
from ckwatch.bench.imports.aiter_registry import Registry
from ckwatch.bench.imports.records import ImportedTiming
from ckwatch.cli.audit import AiterCheckout
from ckwatch.cli.audited_predictions import RowPredictions
from helpers.aiter_checkouts import ASSEMBLY, LARGE, SMALL, moe_kernel, write_checkout

A8W8 = "gfx,cu_num,M,N,K,q_dtype_w,kernelId,splitK,us,kernelName,tflops,bw,errRatio"
TILES = "gfx,cu_num,M,N,K,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio"
BF16 = "gfx,cu_num,M,N,K,bias,dtype,outdtype,libtype,solidx,splitK,us,kernelName,err_ratio,tflops,bw"
MOE = (
    "cu_num,token,model_dim,inter_dim,expert,topk,act_type,dtype,q_dtype_a,q_dtype_w,q_type,use_g1u1,doweight_stage1,us1,"
    "kernelName1,err1,us2,kernelName2,err2,us"
)


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    write_checkout(tmp_path)
    return Registry(AiterCheckout(tmp_path))


def audited(text: str | bytes, registry: Registry | None = None, name: str = "a8w8_tuned_gemm.csv") -> AuditedTable:
    """Audit one table."""
    content = text if isinstance(text, bytes) else text.encode()
    return TableAudit().table(f"/aiter/configs/{name}", content, registry)


def found(table: AuditedTable) -> list[str]:
    """Return the findings as they are printed, without the path."""
    return [f"{one.span.start} {one.severity.value}: {one.message} [{one.code}]" for one in table.findings]


def a8w8(m: int = 128, n: int = 256, k: int = 1024, us: str = "9.5", name: str = LARGE, **more: object) -> str:
    """Return a row of a table of a8w8 GEMMs, with what differs."""
    given = {"gfx": "gfx942", "cu_num": 304, "dtype": "torch.int8", "id": 0 if name == LARGE else 1, "split": 0}
    given |= {"err": 0.0} | more
    head = f"{given['gfx']},{given['cu_num']},{m},{n},{k},{given['dtype']},{given['id']},{given['split']}"
    return f"{head},{us},{name},1,1,{given['err']}"


def test_a_sound_table(registry: Registry) -> None:
    table = audited(f"{A8W8}\n{a8w8()}\n{a8w8(m=1, name=SMALL, k=8192)}\n", registry)
    assert (found(table), table.rows, table.judged, table.not_judged) == ([], 2, 2, {})


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        # kernels
        (
            a8w8(name="a8w8_rowwise_gone"),
            ("2:44 error: AITER has no kernel `a8w8_rowwise_gone` for gfx942: tune M = 128, N = 256, K = 1024 again, or "
            "remove the row [audit/not-registered]"),
        ),
        (
            a8w8(id=1),
            (f"2:36 error: AITER takes this kernel by its number, and 1 is `{SMALL}`; `{LARGE}` is 0: write that, or tune "
            "again [audit/kernel-number]"),
        ),
        (
            a8w8(id=7),
            (f"2:36 error: AITER takes this kernel by its number, and 7 is not a kernel; `{LARGE}` is 0: write that, or tune "
            "again [audit/kernel-number]"),
        ),
        # parts
        (
            a8w8(cu_num=256),
            ("2:8 warning: no known part of gfx942 has 256 compute units (MI300X 304, MI300A 228, MI308X 80): correct gfx "
            "or cu_num [audit/part]"),
        ),
        # shapes
        (
            a8w8(n=1001),
            (f"2:16 error: `{LARGE}` computes nothing: N = 1001 is not a multiple of "
            "CDEShuffleBlockTransferScalarPerVectors = 8; tune again [audit/refused-shape]"),
        ),
        (
            a8w8(k=1000),
            (f"2:20 error: `{LARGE}` computes nothing: K = 1000 is not a multiple of ABlockTransferSrcScalarPerVector = 16"
            "; tune again [audit/refused-shape]"),
        ),
        (
            a8w8(split=2),
            (f"2:38 error: `{LARGE}` computes nothing: K = 1024 is 2 × KPerBlock in each of 4 slices: pipeline v3 needs "
            "more than 2; tune again [audit/split]"),
        ),
        # times
        (
            a8w8(m=8192, n=8192, k=8192, us="100.0"),
            ("2:42 error: 100 µs would be 10,995 TFLOP/s, of which MI300X has 2,615: measure it again, or correct the part "
            "[audit/peak]"),
        ),
        (
            a8w8(m=1, n=65536, k=32768, us="100.0"),
            ("2:41 error: 100 µs would be 18.8 TB/s beyond the cache, of which MI300X has 6: measure it again, or correct "
            "the part [audit/peak]"),
        ),
        (
            a8w8(us="0.0"),
            ("2:40 warning: us is 0: it was not measured, and where AITER keeps the fastest row this one wins; "
            "measure it [audit/untimed]"),
        ),
        (a8w8(us="nan"), "2:40 error: us is `nan`, no time: correct it, or tune again [audit/row]"),
        (a8w8(us="-3"), "2:40 error: us is `-3`, no time: correct it, or tune again [audit/row]"),
        (a8w8(us=""), "2:40 error: us is empty: correct it, or tune again [audit/row]"),
        # cells
        (a8w8(m=-1), "2:12 error: M is `-1`, no whole number from 1: correct it, or tune again [audit/row]"),
        (a8w8().replace(",256,", ",25.5,"), "2:16 error: N is `25.5`, no whole number from 1: correct it, or tune again [audit/row]"),
        (a8w8(name=""), "2:44 error: no kernel is named: correct it, or tune again [audit/row]"),
        (a8w8(dtype="torch.int3"), "2:25 error: unknown dtype `torch.int3`: correct it, or tune again [audit/row]"),
        (
            a8w8(err=0.07),
            "2:133 warning: 7.0% of the elements were wrong, and AITER's tuner accepts 5%: tune again [audit/error-ratio]",
        ),
        (a8w8(err="nan"), "2:133 error: errRatio is `nan`, no share from 0 to 1: tune again [audit/row]"),
        (
            a8w8() + ",9",
            ("2:1 error: the row has 14 cells, and the table 13 columns: AITER cannot read the table; remove the others "
            "[audit/row]"),
        ),
        (
            a8w8().removesuffix(",0.0"),
            ("2:1 warning: the row has 12 cells, and the table 13 columns: those at the end count as empty; add commas, or "
            "cells [audit/short-row]"),
        ),
        ("<<<<<<< HEAD", "2:1 error: a merge conflict was left here: resolve it [audit/row]"),
    ],
)  # fmt: skip
def test_a_row(row: str, expected: str, registry: Registry) -> None:
    assert found(audited(f"{A8W8}\n{row}\n", registry)) == [expected]


@pytest.mark.parametrize(
    "row",
    [
        a8w8(m=100, n=264, k=1040),  # padded
        a8w8(split=1, k=2048),
        a8w8(cu_num=152),  # half an MI300X
        a8w8(gfx="gfx1250", cu_num=96, name=SMALL, k=8192),  # no data sheet
        a8w8(err=0.05),
        a8w8(m=1, n=65536, k=32768, us="400.0"),
        a8w8().replace(LARGE, f'"{LARGE}"'),
        a8w8().replace(",1024,", ",1024.0,"),
    ],
)
def test_a_row_that_is_right(row: str, registry: Registry) -> None:
    assert found(audited(f"{A8W8}\n{row}\n", registry)) == []


def test_a_kernel_that_another_arch_has(registry: Registry) -> None:
    """As the seven rows of aiter#4194: their kernels are there for gfx950, and the rows are for gfx942."""
    rows = [
        "gfx942,80,2048,4608,4096,cktile,26,0,157.5,a8w8_blockscale_cktile_192x128_2,1,1,0",
        "gfx942,80,64,4608,4096,cktile,26,0,157.5,a8w8_blockscale_cktile_128x128_2,1,1,0",  # numbers do not count
        "gfx950,256,2048,4608,4096,cktile,26,0,57.5,a8w8_blockscale_cktile_192x128_2,1,1,0",
        "gfx950,256,2048,4608,512,cktile,26,3,57.5,a8w8_blockscale_cktile_192x128_2,1,1,0",
    ]
    assert found(audited("\n".join([TILES, *rows]), registry, "a8w8_blockscale_tuned_gemm.csv")) == [
        (
            "2:44 error: AITER has no kernel `a8w8_blockscale_cktile_192x128_2` for gfx942; it is a kernel of gfx950: tune "
            "M = 2048, N = 4608, K = 4096 again, or remove the row [audit/not-registered]"
        ),
        "5:36 warning: K = 512 has 4 tiles of 128, too few for 8 slices: lower splitK [audit/split]",
    ]


def test_a_kernel_that_is_gone_by_name_and_number(registry: Registry) -> None:
    """As the row of aiter#4301."""
    rows = [
        "gfx942,80,768,256,6144,False,torch.bfloat16,torch.bfloat16,opus,10211,3,36.6,opus_gemm_gfx942_ws_64,0.01,1,1",
        "gfx942,80,384,256,6144,False,torch.bfloat16,torch.bfloat16,opus,10201,3,36.6,opus_gemm_gfx942_64,0.01,1,1",
        "gfx950,256,384,256,6144,False,torch.bfloat16,torch.bfloat16,opus,10201,3,36.6,opus_gemm_gfx942_64,0.01,1,1",
        "gfx950,256,64,256,6144,False,torch.bfloat16,torch.bfloat16,opus,5,3,36.6,opus_gemm_128,0.01,1,1",
        f"gfx942,304,64,256,6144,False,torch.bfloat16,torch.bfloat16,asm,5,3,36.6,{ASSEMBLY},0.01,1,1",
        f"gfx950,256,32,256,6144,False,torch.bfloat16,torch.bfloat16,asm,5,3,36.6,{ASSEMBLY},0.01,1,1",
        "gfx950,256,16,256,6144,False,torch.bfloat16,torch.bfloat16,triton,0,0,36.6,auto,0.01,1,1",
    ]
    table = audited("\n".join([BF16, *rows]), registry, "bf16_tuned_gemm.csv")
    assert [(str(one.span.start), one.code, one.message[: one.message.index(": ")]) for one in table.findings] == [
        ("2:78", "audit/not-registered", "AITER has no kernel `opus_gemm_gfx942_ws_64` for gfx942"),
        (
            "4:79",
            "audit/not-registered",
            "AITER has no kernel `opus_gemm_gfx942_64` for gfx950; it is a kernel of gfx942",
        ),
        (
            "5:65",
            "audit/kernel-number",
            "AITER takes this kernel by its number, and 5 is `opus_gemm_256`; `opus_gemm_128` is 4",
        ),
        ("7:73", "audit/not-registered", f"AITER has no kernel `{ASSEMBLY}` for gfx950; it is a kernel of gfx942"),
    ]
    assert (table.judged, table.not_judged) == (6, {"kernels of triton": 1})


def moe(units: int = 304, token: int = 64, kernel: str = "", us: str = "30.5", err: str = "0.3%", topk: int = 8) -> str:
    """Return a row of a table of MoE."""
    types = "Silu,torch.bfloat16,torch.float8_e4m3fnuz,torch.float8_e4m3fnuz,QuantType.per_Token,1,0"
    return f"{units},{token},4096,384,128,{topk},{types},15,{kernel or moe_kernel(64)},{err},15,Null,0.0%,{us}"


def test_moe(registry: Registry) -> None:
    rows = [
        moe(),
        moe(256),
        moe(token=1, kernel=moe_kernel(32, "B16_B16_B16")),
        moe(token=2, err="15.4%"),
        moe(token=4, us="0.0"),
        moe(token=8, topk=-1),
        moe(token=0),
        moe(77, kernel="flydsl_gemm4_t16"),
    ]
    table = audited("\n".join([MOE, *rows]), registry, "tuned_fmoe.csv")
    assert [(str(one.span.start), one.code) for one in table.findings] == [
        ("3:114", "audit/not-registered"),
        ("5:214", "audit/error-ratio"),
        ("6:232", "audit/untimed"),
        ("8:5", "audit/row"),
        ("9:1", "audit/part"),
    ]
    assert "for gfx950; it is a kernel of gfx942" in table.findings[0].message
    assert table.findings[-1].message.startswith("no known part has 77 compute units, and no column `gfx`")
    # of bf16 the function has no list, which is not the same as a list without the kernel
    assert table.not_judged == {
        "csrc/ck_gemm_moe_2stages_codegen/gemm_moe_ck2stages_common.py cannot be read for gfx942": 1,
        "kernels of flydsl": 1,
    }


@pytest.mark.parametrize(
    ("kernel", "is_there"),
    [
        ("flydsl_moe1_afp8_wfp4_bf16_t32x128x256", True),
        ("flydsl_moe1_afp8_wfp4_bf16_t32x128x256_kw4_fp8_sbm64", True),
        ("flydsl_moe1_afp8_wfp4_bf16_t32x128x256_gui", False),
        ("flydsl_moe1_afp8_wfp4_bf16_t64x128x256", False),
        ("opus_moe1_afp8_t16x384_fp8", True),
        ("opus_moe2_layout_afp8_t64x256", True),
        ("opus_moe2_afp8_t64x128", False),
        ("flydsl_moe2_layout_afp8_wfp4_bf16_t32x128x256_atomic", None),
    ],
)
def test_kernels_whose_names_say_more_than_their_lists(registry: Registry, kernel: str, is_there: bool | None) -> None:
    table = audited(f"{MOE}\n{moe(kernel=kernel)}", registry, "tuned_fmoe.csv")
    assert [one.code for one in table.findings] == ([] if is_there in (True, None) else ["audit/not-registered"])
    assert table.judged == (is_there is not None)


def test_a_kernel_of_a_neighbour_that_would_be_faster_by_prediction(registry: Registry) -> None:
    """LARGE takes as long for any M up to 128, SMALL in proportion to M."""

    def predicted(record: ImportedTiming, m: int) -> float:
        return 20.0 if record.instance == LARGE else float(m)

    rows = [(64, LARGE, "9.0"), (128, SMALL, "30.0"), (256, LARGE, "31.0")]
    lines = [a8w8(m=m, k=8192, name=name, us=us) for m, name, us in rows]
    text = "\n".join([A8W8, *lines]).encode()
    table = TableAudit(predicted=predicted).table("/aiter/configs/a8w8_tuned_gemm.csv", text, registry)
    words = (
        f"M = 128 takes 30 µs; by prediction `{LARGE}`, which takes 9 at M = 64 of line 2, would take 9: tune it again"
    )
    assert found(table) == [f"3:40 hint: {words} [audit/beaten]"]
    assert not audited(text, registry).findings


def test_instances_of_tables_are_predicted(registry: Registry) -> None:
    seen: list[float | None] = []
    predictions = RowPredictions()

    def predicted(record: ImportedTiming, m: int) -> float | None:
        seen.append(predictions.time_us(record, m))
        return seen[-1]

    text = f"{A8W8}\n{a8w8(m=64, k=8192)}\n{a8w8(m=8192, name=SMALL, k=8192, us='900.0')}\n".encode()
    TableAudit(predicted=predicted).table("/aiter/configs/a8w8_tuned_gemm.csv", text, registry)
    assert len(seen) == 4
    assert all(seen)


def test_what_cannot_be_judged_is_counted(registry: Registry) -> None:
    row = "gfx950,256,64,256,1024,0,0,9.5,a4w4_blockscale_any,1,1,0"
    table = audited(f"gfx,cu_num,M,N,K,kernelId,splitK,us,kernelName,tflops,bw,errRatio\n{row}", registry)
    path = "csrc/ck_gemm_a4w4_blockscale/gemm_a4w4_blockscale_common.py"
    assert (found(table), table.not_judged) == ([], {f"{path} cannot be read for gfx950": 1})
    table = audited(f"{A8W8}\n{a8w8(name='a8w8_rowwise_gone')}\n")
    assert (found(table), table.not_judged) == ([], {"no checkout of AITER": 1})
    table = audited("gfx,T,BV,us\ngfx950,1,2,3\n", registry, "chunk_gdn_h_opt_tuned.csv")
    assert [one.code for one in table.findings] == ["audit/not-judged"]
    assert table.not_judged == {"tables of another kind": 1}


def test_duplicates_within_and_across_tables() -> None:
    audit = TableAudit()
    first = audit.table(
        "/aiter/configs/a8w8_tuned_gemm.csv", f"{A8W8}\n{a8w8()}\n{a8w8()}\n{a8w8(us='8.5')}\n".encode()
    )
    other = a8w8(dtype="torch.float8_e4m3fn")
    text = f"{A8W8}\n{other}\n{a8w8(us='10.5')}\n".encode()
    second = audit.table("/aiter/configs/model_configs/some_a8w8_tuned_gemm_x.csv", text)
    elsewhere = audit.table("/other/configs/a8w8_tuned_gemm.csv", text)
    same = "M = 128, N = 256, K = 1024"
    assert found(first) == [
        "3:1 warning: the same row is at line 2: remove one [audit/duplicate]",
        (
            f"4:1 error: line 2 is for the same key ({same}), and AITER refuses tables with two: keep the faster "
            "[audit/duplicate]"
        ),
    ]
    assert found(second) == [
        (
            f"3:1 error: a8w8_tuned_gemm.csv:2 is for the same key ({same}), and AITER refuses tables with two: keep the "
            "faster [audit/duplicate]"
        )
    ]
    assert second.findings[0].related[0].span is not None
    assert found(elsewhere) == []
    grouped = audited(f"{A8W8}\n{a8w8()}\n{a8w8(us='8.5')}\n", name="some_tuned_table.csv")
    assert [one.severity.value for one in grouped.findings] == ["warning"]


def test_a_larger_product_that_takes_less_is_advice() -> None:
    rows = [a8w8(m=64, us="30"), a8w8(m=128, us="12"), a8w8(m=256, us="14"), a8w8(m=512, us="11")]
    rows += [a8w8(m=64, us="90", n=512), a8w8(m=32, us="13.7")]
    assert found(audited("\n".join([A8W8, *rows]))) == [
        "4:40 hint: M = 256 takes 14 µs, and M = 512 of line 5 11: tune it again, or pad M [audit/slower]",
        "2:39 hint: M = 64 takes 30 µs, and M = 512 of line 5 11: tune it again, or pad M [audit/slower]",
    ]  # 13.7 is less than a quarter above 11


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "1:1 error: it is empty: write at least the line of column names [audit/table]"),
        (b"\xef\xbb\xbf\r\n", "1:1 error: it is empty: write at least the line of column names [audit/table]"),
        (
            b"\x1f\x8b\x08\x00",
            "1:1 error: it is compressed: AITER reads tables as text; unpack it with gunzip [audit/table]",
        ),
        (b"M,N,K\n1,2\xff", "2:4 error: it is not text in UTF-8: save it as such [audit/table]"),
        (
            b"gfx,M,N,us,kernelName\n",
            "1:1 error: it has no column `K`: add it, or tune again [audit/table]",
        ),
        (
            b"M,N,K,libtype,us\n",
            "1:1 error: it has no column `kernelName` or `instance`: add it, or tune again [audit/table]",
        ),
        (
            b"token,model_dim,inter_dim,us\n",
            "1:1 error: it has no column `expert`, `topk`, `kernelName1`: add it, or tune again [audit/table]",
        ),
        (b"M,N,K,us,us,kernelName\n", "1:10 error: it has two columns `us`: remove one [audit/table]"),
        (b"<<<<<<< HEAD\nM,N\n", "1:1 error: a merge conflict was left here: resolve it [audit/row]"),
    ],
)
def test_no_table(content: bytes, expected: str) -> None:
    assert found(audited(content)) == [expected]


def test_what_spreadsheets_do_to_a_table(registry: Registry) -> None:
    table = audited(("\ufeff" + f"{A8W8}\n{a8w8()}\n").replace("\n", "\r\n"), registry)
    assert [(one.code, one.severity.value) for one in table.findings] == [("audit/format", "information")] * 2
    assert (table.rows, table.judged) == (1, 1)


def test_a_table_without_rows(registry: Registry) -> None:
    """AITER ships some."""
    assert found(audited(f"{A8W8}\n", registry)) == []


def test_rows_for_another_part() -> None:
    text = "\n".join([A8W8, a8w8(), a8w8(gfx="gfx950", cu_num=256), a8w8(m=1, cu_num=80)])
    table = TableAudit(known_part("MI300X")).table("/t/a8w8_tuned_gemm.csv", text.encode())
    assert found(table) == [
        "3:8 warning: the row is for gfx950 with 256 compute units, and the table for MI300X: move it elsewhere [audit/part]",
        "4:8 warning: the row is for gfx942 with 80 compute units, and the table for MI300X: move it elsewhere [audit/part]",
    ]


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("MI300X", ("gfx942", 304)),
        ("mi325x", ("gfx942", 304)),
        ("MI355X", ("gfx950", 256)),
        ("gfx1250:96", ("gfx1250", 96)),
        ("gfx942", None),
        ("gfx942:x", None),
        ("H100", None),
        ("", None),
    ],
)
def test_names_of_parts(name: str, part: tuple[str, int] | None) -> None:
    assert known_part(name) == part


def test_findings_of_a_kind_are_counted_beyond_those_that_are_kept() -> None:
    rows = [a8w8(m=number, us="-1") for number in range(1, KEPT + 100)]
    table = audited("\n".join([A8W8, *rows]))
    assert (len(table.findings), table.counts) == (KEPT, {"audit/row": KEPT + 99})


def test_a_sample_depends_on_the_seed_alone(registry: Registry) -> None:
    text = "\n".join([A8W8, *(a8w8(m=number) for number in range(1, 200))]).encode()

    def lines(seed: int) -> list[int]:
        audit = TableAudit(sample=5, seed=seed)
        audit.table("/t/a8w8_tuned_gemm.csv", text, registry)
        return sorted(one.span.start.line for one in audit.sampled)

    assert lines(1) == lines(1)
    assert len(set(lines(1))) == 5
    assert lines(1) != lines(2)


@pytest.mark.parametrize(
    ("line", "cell", "bounds"),
    [
        ("a,bc,d\r\n", 0, (0, 1)),
        ("a,bc,d\r\n", 1, (2, 4)),
        ("a,bc,d\r\n", 2, (5, 6)),
        ("a,bc,d\r\n", 3, (6, 6)),
        ('"a,b",c\n', 1, (6, 7)),
        ("", 0, (0, 0)),
    ],
)
def test_cells(line: str, cell: int, bounds: tuple[int, int]) -> None:
    assert cell_bounds(line, cell) == bounds
