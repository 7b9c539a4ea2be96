"""Edits give what they promise, in TOML's own reading, and leave comments and layout alone."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ckwatch
from ckwatch.model.names import NAME_LENGTH_LIMIT
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.toml import toml_key, toml_value
from ckwatch_lsp.kernel_files.language.document import KernelFileText
from ckwatch_lsp.kernel_files.language.edits import (
    KernelFileEdit,
    ValueChange,
    add_instance,
    apply_parameters,
    combinations,
    set_parameter,
    string_text,
    to_instances,
    to_sweep,
)
from ckwatch_lsp.kernel_files.language.formatting import format_file
from helpers.each_row import each_row
from helpers.kernel_file_edits import applied
from helpers.marked import marked

GEMM = Path(ckwatch.__file__).parents[2] / "examples/gemm"
TEXT = (GEMM / "gemm_f16.kernel.toml").read_text()
HEAD = TEXT[: TEXT.index("[[instance]]")]

SMALL = """\
[defaults]
A = 1  # one
[[instance]]  # first
name = "i"  # its name
# about B
B = 2  # two
C = [1, 2]

[[instance]]
name = "j"
B = 4
"""


def after(document: KernelFileText, edits: list[KernelFileEdit]) -> str:
    assert edits
    return applied(document.text, document.toml, edits)


def test_a_copy_of_an_instance_with_other_values() -> None:
    document = KernelFileText(SMALL)
    changes = [ValueChange("B", 2, 4), ValueChange("A", 1, 8)]
    edit = add_instance(document, document.instances[0], changes, "meant to: x", {"i", "j", "i_4"})
    assert edit is not None
    text = after(document, [edit])
    assert text == SMALL.replace(
        "C = [1, 2]\n",
        """\
C = [1, 2]

# meant to: x
[[instance]]
name = "i_4_2"
B = 4
C = [1, 2]
A = 8
""",
    )
    assert (
        applied(text, KernelFileText(text).toml, format_file(KernelFileText(text).toml)).count("\n\n# meant to: x\n[[")
        == 1
    )
    # the text has another value than the one that is to be changed
    assert add_instance(document, document.instances[0], [ValueChange("B", 3, 4)], "x", ()) is None
    assert add_instance(document, document.instances[0], [ValueChange("C", [1, 2], [2, 1])], "x", ()) is not None


V3: dict[str, Any] = {"MPerBlock": 128, "NPerBlock": 128, "KPerBlock": 64, "Version": "v3", "Threads": [8, 32, 1]}


@each_row(
    ("name", "changes", "expected"),
    [
        ("v3_128x128x64_intrawave", {"KPerBlock": 32}, "v3_128x128x32_intrawave"),
        ("v3_128x128x64_intrawave", {"MPerBlock": 64}, "v3_64x128x64_intrawave"),
        ("v3_128x128x64_intrawave", {"NPerBlock": 64, "KPerBlock": 32}, "v3_128x64x32_intrawave"),
        ("v3_128x128x64_intrawave", {"Version": "v1"}, "v1_128x128x64_intrawave"),
        ("v3_128x128x64_intrawave", {"KPerBlock": 32, "Threads": [4, 64, 1]}, "v3_128x128x32_intrawave"),
        ("v3_128x128x64_intrawave", {"BlockSize": 128}, "v3_128x128x64_intrawave_128"),
        ("256x64", {"BlockSize": 128}, "128x64"),
        # which of two it is cannot be told, and what only looks like it is something else
        ("t128", {"NPerBlock": 64}, "t128_64"),
        ("128x64", {"NPerBlock": 64}, "128x64_64"),
        ("1264_v31", {"KPerBlock": 32}, "1264_v31_32"),
        ("1264_v31", {"Version": "v1"}, "1264_v31_v1"),
        ("some", {"Threads": [4, 64, 1]}, "some_4x64x1"),
    ],
)
def test_the_name_of_a_copy(name: str, changes: dict[str, Any], expected: str) -> None:
    pairs = "".join(f"{key} = {toml_value(value)}\n" for key, value in V3.items())
    document = KernelFileText(f'[defaults]\nBlockSize = 256\n[[instance]]\nname = "{name}"\n{pairs}')
    before = {**V3, "BlockSize": 256}
    made = [ValueChange(key, before[key], value) for key, value in changes.items()]
    edit = add_instance(document, document.instances[0], made, "x", {name})
    assert edit is not None
    first, second = tomllib.loads(after(document, [edit]))["instance"]
    assert second == {**first, **changes, "name": expected}


def test_a_copy_without_room_for_its_name() -> None:
    document = KernelFileText(f'[[instance]]\nname = "{"n" * NAME_LENGTH_LIMIT}"\nA = 1\n')
    assert add_instance(document, document.instances[0], [ValueChange("A", 1, 2)], "x", ()) is None


def test_an_instance_becomes_a_sweep_of_one() -> None:
    document = KernelFileText(SMALL)
    assert (
        after(document, to_sweep(document, document.instances[0]))
        == """\
[defaults]
A = 1  # one
[[sweep]]  # first
name = "i"  # its name

[sweep.parameters]
# about B
B = [2]  # two
C = [[1, 2]]

[[instance]]
name = "j"
B = 4
"""
    )


def test_only_one_parameter_becomes_a_list() -> None:
    document = KernelFileText('[[instance]]\nB = 2\nname = "i"\nC = "x"\nD = [1]\n')
    text = after(document, to_sweep(document, document.instances[0], "C"))
    assert text == '[[sweep]]\nname = "i"\n\n[sweep.parameters]\nB = 2\nC = ["x"]\nD = [[1]]\n'


@pytest.mark.parametrize(
    "text",
    [
        "[[instance]]\nB = 1\n",
        '[[instance]]\nname = "i"\n',
        '[[instance]]\nname = "i"\nB =\n',
        '[[instance]]\nname = "i"\nB = 1\n[[sweep]]\nname = "s"\nbase = "i"\n[sweep.parameters]\nB = [1]\n',
    ],
)
def test_what_cannot_become_a_sweep(text: str) -> None:
    document = KernelFileText(text)
    assert to_sweep(document, document.instances[0]) == []


def test_a_sweep_is_written_out() -> None:
    document = KernelFileText(
        '[[instance]]\nname = "i"\nB = 2\nC = 3\n\n[[sweep]]  # all\nname = "s"\nbase = "i"\n[sweep.parameters]\n'
        "B = [0x10, 32]\n# orders\nO = [[1, 0], [0, 1]]\nF = true # fixed\n\n[[shape]]\nM = 1\n"
    )
    sweep = document.sweeps[0]
    instances = combinations(sweep)
    assert instances is not None
    text = after(document, to_instances(document, sweep, instances))
    found = tomllib.loads(text)
    assert found["instance"][1:] == [
        {"name": f"s_{size}_{order}", "B": size, "C": 3, "O": list(map(int, order.split("x"))), "F": True}
        for size in (16, 32)
        for order in ("1x0", "0x1")
    ]
    assert "sweep" not in found
    assert found["shape"] == [{"M": 1}]
    assert text.count("B = 0x10") == 2
    for comment in ("# all", "# orders", "# fixed"):
        assert text.count(comment) == 1
    assert "\n\n[[shape]]" in text


def test_conditions_are_for_the_daemon() -> None:
    document = KernelFileText('[[sweep]]\nname = "s"\nwhere = "B > 1"\nparameters = { B = [1, 2] }\n')
    sweep = document.sweeps[0]
    assert sweep.has_conditions
    assert combinations(sweep) == {"s_1": {"B": 1}, "s_2": {"B": 2}}
    text = after(document, to_instances(document, sweep, {"s_2": {"B": 2, "Other": 3}}))
    assert tomllib.loads(text) == {"instance": [{"name": "s_2", "B": 2}]}


def test_combinations_are_that_of_the_daemon(tmp_path: Path) -> None:
    (tmp_path / "ckwatch.toml").write_text("")
    sweep = '[[sweep]]\nname = "s"\n[sweep.parameters]\nMPerBlock = [128, 64, 128]\nBlkGemmPipelineVer = ["v1", "v 2"]\nAK1 = 8\n'
    sweep += "BBlockLdsExtraN = [true]\nABlockTransferSrcAccessOrder = [[1, 0, 2]]\n"
    (tmp_path / "k.kernel.toml").write_text(HEAD + sweep)
    (kernel,) = load_workspace(tmp_path).kernels
    found = combinations(KernelFileText(HEAD + sweep).sweeps[0])
    assert found is not None
    assert list(found) == [instance.name for instance in kernel.instances]
    for instance in kernel.instances:
        own = {name: tuple(value) if isinstance(value, list) else value for name, value in found[instance.name].items()}
        assert {**instance.parameters, **own} == instance.parameters


def test_there_and_back_again() -> None:
    """Instances that are turned into sweeps and written out are the same but for their names."""
    document = KernelFileText(TEXT)
    for at, instance in enumerate(document.instances):
        document_now = KernelFileText(TEXT)
        swept = KernelFileText(after(document_now, to_sweep(document_now, document_now.instances[at])))
        expected = tomllib.loads(TEXT)["instance"][at]
        assert len(swept.instances) == len(document.instances) - 1
        (sweep,) = swept.sweeps
        instances = combinations(sweep)
        assert instances is not None
        assert len(instances) == 1
        back = tomllib.loads(after(swept, to_instances(swept, sweep, instances)))["instance"]
        (found,) = [one for one in back if one["name"] == next(iter(instances))]
        assert found | {"name": instance.name} == expected


def test_the_parameters_of_another() -> None:
    document = KernelFileText(SMALL)
    edits = apply_parameters(document, document.instances[0], {"A": 1, "B": 3, "D": "x"})
    assert after(document, edits) == SMALL.replace("B = 2  # two\nC = [1, 2]\n", 'B = 3  # two\nD = "x"\n')
    assert apply_parameters(document, document.instances[0], document.effective(document.instances[0])) == []


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("[x]\nB = 2 # two\n", 3, "[x]\nB = 3 # two\n"),
        ("[x]\nB = [1,\n 2]\n", [3], "[x]\nB = [3]\n"),
        ("[x]\nB =\n", 3, "[x]\nB = 3\n"),
        ("[x]\nB\n", 3, "[x]\nB = 3\n"),
        ("[x]\n", 3, "[x]\nB = 3\n"),
        ("[x]", True, "[x]\nB = true"),
        ("[x] # c\n\n[y]\n", 1.0, "[x] # c\nB = 1.0\n\n[y]\n"),
        ("[x]\n  A = 1 # c\n\n[y]\n", 'v"1', '[x]\n  A = 1 # c\n  B = "v\\"1"\n\n[y]\n'),
        ("[x]\r\nA = 1\r\n", 3, "[x]\r\nA = 1\r\nB = 3\r\n"),
    ],
)
def test_a_parameter_is_set(text: str, value: Any, expected: str) -> None:
    document = KernelFileText(text)
    assert after(document, [set_parameter(document, document.toml.tables[1], "B", value)]) == expected


@pytest.mark.parametrize(
    ("written", "name", "expected"), [('"a"', 'b"', '"b\\""'), ("'a'", "b", "'b'"), ("'a'", "b'", '"b\'"')]
)
def test_a_string_gets_another_text(written: str, name: str, expected: str) -> None:
    document = KernelFileText(f"name = {written}\n")
    value = document.toml.tables[0].value("name")
    assert value is not None
    assert after(document, [string_text(document, value, name)]) == f"name = {expected}\n"


PARAMETERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.booleans(), st.floats(allow_nan=False), st.text(max_size=20), st.lists(st.integers(0, 999), max_size=4)
)  # fmt: skip


@given(PARAMETERS, st.text(min_size=1, max_size=10))
@settings(max_examples=200, deadline=None)
def test_values_are_written_as_toml_reads_them(value: Any, key: str) -> None:
    key = key.encode("utf-8", "ignore").decode()
    assert tomllib.loads(f"{toml_key(key)} = {toml_value(value)}") == {key: value}


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_edits_of_the_shipped_file_say_what_was_meant(data: st.DataObject) -> None:
    document = KernelFileText(TEXT)
    before = tomllib.loads(TEXT)
    at = data.draw(st.integers(0, len(document.instances) - 1))
    instance = document.instances[at]
    effective = document.effective(instance)
    names = data.draw(st.lists(st.sampled_from([*effective, "New"]), unique=True, max_size=5))
    wanted = {**effective, **{name: data.draw(PARAMETERS) for name in names}}
    for gone in data.draw(st.lists(st.sampled_from(sorted(instance.parameters)), unique=True, max_size=2)):
        if gone not in before["defaults"]:
            wanted.pop(gone)
    edits = apply_parameters(document, instance, wanted)
    found = tomllib.loads(applied(TEXT, document.toml, edits))
    assert {**found["defaults"], **found["instance"][at]} == {**wanted, "name": instance.name}
    assert [one for index, one in enumerate(found["instance"]) if index != at] == [
        one for index, one in enumerate(before["instance"]) if index != at
    ]
    assert {name: found[name] for name in found if name != "instance"} == {
        name: before[name] for name in before if name != "instance"
    }


def test_instances_and_sweeps_at_places() -> None:
    text = '[[instance]]\nname = "i"\n\n[[sweep]]\nname = "s"\n\n[sweep.parameters]\nB = ‸[1]\n'
    plain, position = marked(text)
    document = KernelFileText(plain)
    sweep = document.sweep_at(position)
    assert sweep is not None
    assert sweep.name == "s"
    assert document.instance_at(position) is None
    instance = document.instance_at(document.toml.position(2))
    assert instance is not None
    assert instance.name == "i"
