"""Profiles of rocprofv3: files that AMD's tools wrote, read whole, and what is none."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ckwatch.codeobject.device_profiles import place_of, read_profile, reason_words
from ckwatch.model.device_profiles import HOST_TRAP, STOCHASTIC, THREAD_TRACE, DeviceProfile, NoProfileError

PROFILES = Path(__file__).parents[1] / "data" / "profiles"
CODE = json.loads(gzip.decompress((PROFILES / "att_code.json.gz").read_bytes()))


def of(found: Any) -> DeviceProfile:
    return read_profile(json.dumps(found).encode())


@pytest.mark.parametrize(
    ("name", "method", "without"),
    [
        ("pc_sampling_host_trap.csv", HOST_TRAP, 79),
        ("pc_sampling_host_trap_debug.csv", HOST_TRAP, 0),
        ("pc_sampling_stochastic_debug.csv", STOCHASTIC, 0),
    ],
)
def test_every_sample_of_a_real_file_is_placed_or_has_no_line(name: str, method: str, without: int) -> None:
    with (PROFILES / name).open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = read_profile((PROFILES / name).read_bytes())
    lines = found.by_line()
    assert (found.method, found.unit, found.total) == (method, "samples", len(rows))
    assert sum(line.weight for line in lines) == len(rows)
    assert sum(line.weight for line in lines if line.line is None) == without
    for place in found.places:
        mine = [
            row
            for row in rows
            if row["Instruction"] == place.text and place_of(row["Instruction_Comment"]) == (place.path, place.line)
        ]
        assert place.samples == len(mine)
        assert place.lanes == sum(int(row["Exec_Mask"]).bit_count() for row in mine)
        issued = [row for row in mine if row.get("Wave_Issued_Instruction") == "1"]
        assert place.issued == len(issued)
        if method is STOCHASTIC:
            assert place.issued + sum(place.stalls.values()) == place.samples


def test_the_instructions_of_a_trace_are_read_whole() -> None:
    found = of(CODE)
    columns = {name: at for at, name in enumerate(CODE["header"])}
    rows = [row for row in CODE["code"] if not row[0].startswith(";")]
    assert len(found.places) == len(rows)
    assert found.total == sum(row[columns["PC_Issued"]] + row[columns["PC_Stalled"]] for row in rows) == 4690
    assert found.notes == ()
    lines = found.by_line()
    assert sum(line.weight for line in lines) == found.total
    stalls: dict[str, int] = {}
    for line in lines:
        for reason, count in line.stalls.items():
            stalls[reason] = stalls.get(reason, 0) + count
    # in the order of the enumeration of rocprofiler-sdk
    assert [stalls[reason] for reason in ("waitcnt", "barrier wait", "arbiter win ex stall")] == [657, 761, 777]
    assert found.places[0].kernel.startswith("void reference_gemm<4>")


def test_a_trace_with_cycles_is_weighed_by_them() -> None:
    header = ["ISA", "_", "LineNumber", "Source", "Codeobj", "Vaddr", "Hit", "Latency", "Stall", "Idle"]
    rows = [["s_nop 0", 0, 1, "/k.hip:7", 1, 64, 4, 40, 8, 4], ["s_endpgm", 0, 2, "", 1, 68, 1, 10, 0, 0]]
    found = of({"code": rows, "header": header})
    assert (found.method, found.unit, found.total) == (THREAD_TRACE, "cycles", 50)
    assert found.notes == ("10 of 50 cycles have no source line",)
    assert [(line.path, line.line, line.weight, line.executed) for line in found.by_line()] == [
        ("/k.hip", 6, 40, 4),
        ("", None, 10, 1),
    ]


def tool(**records: Any) -> dict[str, Any]:
    """As rocprofv3 writes it."""
    return {
        "rocprofiler-sdk-tool": [
            {
                "buffer_records": {
                    "kernel_dispatch": [{"dispatch_info": {"dispatch_id": 3, "kernel_id": 5}}],
                    **records,
                },
                "kernel_symbols": [{"kernel_id": 5, "formatted_kernel_name": "k(int*)"}],
                "strings": {
                    "pc_sample_instructions": ["v_add_f32_e32 v0, v1, v2", "s_waitcnt vmcnt(0)"],
                    "pc_sample_comments": ["/k.hip:4", ""],
                },
            }
        ]
    }


def test_samples_in_json_say_their_kernel_and_address() -> None:
    record = {"dispatch_id": 3, "exec_mask": 255, "pc": {"code_object_id": 1, "code_object_offset": 4096}}
    stalled = {
        **record,
        "wave_issued": 0,
        "snapshot": {"stall_reason": f"{'ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_'}WAITCNT"},
    }
    samples = [
        {"inst_index": 0, "record": {**record, "wave_issued": 1}},
        {"inst_index": 1, "record": stalled},
        {"inst_index": -1, "record": stalled},
    ]
    found = of(tool(pc_sample_stochastic=samples))
    assert (found.method, found.total) == (STOCHASTIC, 3)
    first, second, unknown = sorted(found.places, key=lambda place: (not place.text, place.line is None))
    assert (first.path, first.line, first.address, first.kernel) == ("/k.hip", 3, 4096, "k(int*)")
    assert (first.issued, first.lanes) == (1, 8)
    assert second.stalls == {"waitcnt": 1}
    assert unknown.text == ""
    assert found.notes == (
        "1 samples are of code that the tool did not know",
        "1 of 3 samples have no source line: the code object has no line tables",
    )


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\xff\xfe\x00", "it is not text"),
        (b"{", "it is not JSON"),
        (b"[1]", "it has no column Instruction"),
        (b"{}", "it has neither"),
        (b'{"code": [], "header": ["ISA"]}', "its header has no Source"),
        (b'{"rocprofiler-sdk-tool": []}', "it has no samples"),
        (b'{"rocprofiler-sdk-tool": [{}]}', "it has no samples"),
        (b"a,b\n1,2\n", "it has no column Instruction"),
        (b"", "it has no column Instruction"),
        (b"x" * 200_000, "it is not CSV: field larger than field limit"),
    ],
)
def test_what_is_no_profile_is_said(content: bytes, why: str) -> None:
    with pytest.raises(NoProfileError, match=why):
        read_profile(content)


@pytest.mark.parametrize(
    "broken",
    [
        {"buffer_records": [1], "strings": 3},
        {"buffer_records": {"pc_sample_stochastic": 7}, "strings": {"pc_sample_instructions": "x"}},
        {"buffer_records": {"pc_sample_host_trap": [1, {"inst_index": "x"}, {"inst_index": 0, "record": 5}, {}]}},
        {"buffer_records": {"kernel_dispatch": [3]}, "kernel_symbols": [1]},
        "a text",
    ],
)
def test_damage_is_no_traceback(broken: Any) -> None:
    whole = tool(pc_sample_host_trap=[{"inst_index": 0, "record": {"exec_mask": 1}}])
    found = of({"rocprofiler-sdk-tool": [broken, *whole["rocprofiler-sdk-tool"]]})
    assert found.total == 1
    with pytest.raises(NoProfileError):
        of({"code": [], "header": {"ISA": 1}})


def test_broken_rows_are_counted() -> None:
    text = '"Exec_Mask","Instruction","Instruction_Comment"\n15,"s_nop 0","/k.hip:1"\nx,"s_nop 0","/k.hip:1"\n3\n'
    found = read_profile(text.encode())
    assert (found.total, found.notes) == (1, ("2 samples could not be read",))
    broken = of({"code": [["s_nop 0"], "x"], "header": CODE["header"]})
    assert (broken.places, broken.notes) == ((), ("2 rows could not be read",))


@pytest.mark.parametrize(
    ("comment", "place"),
    [
        ("/a b/k.hip:12", ("/a b/k.hip", 11)),
        ("/a:b/k.hip:12:7", ("/a:b/k.hip", 11)),
        ("/k.hip:0", ("", None)),
        ("", ("", None)),
        ("?", ("", None)),
    ],
)
def test_places_of_comments(comment: str, place: tuple[str, int | None]) -> None:
    assert place_of(comment) == place


def test_reasons_are_words() -> None:
    assert reason_words("ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_ALU_DEPENDENCY") == "alu dependency"
    assert reason_words("") == "not said"


COUNTERS_CSV = """"Correlation_Id","Dispatch_Id","Agent_Id","Process_Id","Kernel_Id","Kernel_Name","Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"
1,1,"Agent 4",7,9,"transpose(_Float16*)","SQ_LDS_BANK_CONFLICT",3670016.000000,1000,3000
1,1,"Agent 4",7,9,"transpose(_Float16*)","SQ_INSTS_LDS",589824,1000,3000
2,2,"Agent 4",7,9,"transpose(_Float16*)","SQ_LDS_BANK_CONFLICT",3670016.000000,4000,6000
3,3,"Agent 4",7,8,"copy(float*)","SQ_LDS_BANK_CONFLICT",0,7000,7500
4,4,"Agent 4",7,8,"copy(float*)","SQ_LDS_BANK_CONFLICT",none,8000,8500
5,5,"Agent 4",7,8,"copy(float*)","SQ_LDS_BANK_CONFLICT",nan,8000,8500
"""


def test_counters_are_summed_by_kernel() -> None:
    found = read_profile(COUNTERS_CSV.encode())
    assert (found.method, found.total, found.notes) == ("counters", 0, ("2 values of counters could not be read",))
    transpose, copied = found.kernels
    assert (transpose.name, transpose.launches, transpose.time_ns) == ("transpose(_Float16*)", 2, 4000)
    assert transpose.counters == {"SQ_INSTS_LDS": 589824, "SQ_LDS_BANK_CONFLICT": 2 * 3670016}
    assert transpose.counted == {"SQ_INSTS_LDS": 1, "SQ_LDS_BANK_CONFLICT": 2}
    assert copied.counters == {"SQ_LDS_BANK_CONFLICT": 0}
    with pytest.raises(NoProfileError, match="it has no column Kernel_Name, which rocprofv3's counters have"):
        read_profile(COUNTERS_CSV.replace("Kernel_Name", "Kernel").encode())


def test_counters_in_json_are_summed_over_instances() -> None:
    whole = tool(pc_sample_host_trap=[{"inst_index": 0, "record": {"exec_mask": 1}}])
    (process,) = whole["rocprofiler-sdk-tool"]
    process["counters"] = [{"id": {"handle": 5}, "name": "SQ_WAVES"}]
    data = {"dispatch_info": {"dispatch_id": 3, "kernel_id": 5}, "start_timestamp": 100, "end_timestamp": 150}
    records = [{"counter_id": {"handle": handle}, "value": value} for handle, value in ((5, 8.0), (5, 4.0), (6, 1.0))]
    process["callback_records"] = {"counter_collection": [{"dispatch_data": data, "records": records}]}
    found = of(whole)
    (kernel,) = found.kernels
    assert (found.total, kernel.name, kernel.counters, kernel.time_ns) == (1, "k(int*)", {"SQ_WAVES": 12}, 50)
    assert "1 values of counters could not be read" in found.notes
    del process["buffer_records"]["pc_sample_host_trap"]
    assert (of(whole).method, of(whole).places) == ("counters", ())
