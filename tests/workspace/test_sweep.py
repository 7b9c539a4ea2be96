"""Sweeps: names, values with their places, conditions, and limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.workspaces import KERNEL, OPERATION, TOP, unmarked, workspace

FREE = "{{ parameters }}"


def sweep(where: str, parameters: str, name: str = "s") -> str:
    return TOP + OPERATION + f'[[sweep]]\nname = "{name}"\nwhere = {where}\n[sweep.parameters]\n{parameters}\n'


def names(root: Path, text: str) -> list[str]:
    found = workspace(root, {"k.kernel.toml": text, "templates/t.hip.j2": FREE})
    assert found.diagnostics == ()
    return [instance.name for instance in found.kernels[0].instances]


ROWS = [
    ("[]", "A = [1, 2]\nB = [3, 4]", ["s_1_3", "s_1_4", "s_2_3", "s_2_4"]),
    ("[]", "A = [1]\nB = 3", ["s_1"]),
    ("[]", "A = [[4, 64, 1], [8, 32, 1]]", ["s_4x64x1", "s_8x32x1"]),
    (
        "[]",
        'A = ["v1", "Some Name"]\nB = [1, 0.5]',
        ["s_v1_1", "s_v1_0.5", "s_Some-Name_1", "s_Some-Name_0.5"],
    ),
    ("[]", "A = [true, false]", ["s_true", "s_false"]),
    ('"A >= B"', "A = [1, 2]\nB = [1, 2]", ["s_1_1", "s_2_1", "s_2_2"]),
    ('["A >= B", "A + B != 3"]', "A = [1, 2]\nB = [1, 2]", ["s_1_1", "s_2_2"]),
    ('["A % 2 == 0 and C in (3, 4)"]', "A = [1, 2]\nC = [3, 5]", ["s_2_3"]),
    ('["L[0] * L[1] == 256", "L|length == 3"]', "L = [[4, 64, 1], [8, 16, 1]]", ["s_4x64x1"]),
    ("[\"max(A, 2) == 2 and V == 'v1'\"]", 'A = [1, 3]\nV = ["v1", "v2"]', ["s_1_v1"]),
]


@pytest.mark.parametrize(("where", "parameters", "expected"), ROWS)
def test_instances(tmp_path: Path, where: str, parameters: str, expected: list[str]) -> None:
    text = sweep(where, parameters)
    assert names(tmp_path, text) == expected


def test_places_lead_to_where_each_value_was_written(tmp_path: Path) -> None:
    text = KERNEL + (
        "[defaults]\nBlkGemmPipelineVer = 'v3'\nNPerBlock = 1\n"
        '[[sweep]]\nname = "s"\nbase = "first"\n[sweep.parameters]\nNPerBlock = [64, 256]\n'
    )
    found = workspace(tmp_path, {"k.kernel.toml": text})
    last = found.kernels[0].instances[-1]
    assert (last.name, dict(last.parameters)) == (
        "s_256",
        {"BlkGemmPipelineVer": "v3", "NPerBlock": 256, "MPerBlock": 128},
    )
    lines = text.splitlines()

    def written(name: str) -> str:
        span = last.spans[name]
        return lines[span.start.line][span.start.column : span.end.column]

    assert [written(name) for name in last.parameters] == ["'v3'", "256", "128"]
    assert last.spans["MPerBlock"].start.line == lines.index("MPerBlock = 128")
    assert lines[last.span.start.line] == 'name = "s"'


MISTAKES = [
    ('["A > «Bb»"]', "A = [1]\nB = 2", "unknown-parameter", "the condition mentions `Bb`, which no parameter"),
    ('[«"A = 1"»]', "A = [1]", "invalid-condition", "a comparison is written =="),
    ('[«"A +"»]', "A = [1]", "invalid-condition", "is not a condition"),
    ('[«"A < 1e9992"»]', "A = [1]", "invalid-condition", "a number is too large"),
    ('[«"A + 1"»]', "A = [1, 2]", "failing-condition", "is the integer 2 for A = 1, neither true nor false"),
    ('[«"1 % A == 0"»]', "A = [1, 0]", "failing-condition", "fails for A = 0"),
    ("[«\"A < 'x'\"»]", "A = [1, 0]", "failing-condition", "fails for A = 1"),
    ('[«"A.real == 1"»]', "A = [1]", "failing-condition", "fails for A = 1"),
    ("[«\"''.__class__ == 1\"»]", "A = [1]", "failing-condition", "unsafe"),
    ('[«"A ** 9 ** 9 ** 9 ** 9 > 1"»]', "A = [9]", "failing-condition", "enormous"),
    ("[«\"'x' * 10**9 == A\"»]", "A = [9]", "failing-condition", "takes numbers"),
    ("[«\"'%1000000000d' % A == ''\"»]", "A = [9]", "failing-condition", "takes numbers"),
    ("[«\"A|center(10**9) == ''\"»]", "A = [9]", "invalid-condition", "No filter named 'center'"),
    ("«3»", "A = [1]", "wrong-type", "`where` must be an array of strings"),
    ("[«3»]", "A = [1]", "wrong-type", "element 1 of `where` must be a string"),
]


@pytest.mark.parametrize(("where", "parameters", "code", "message"), MISTAKES)
def test_mistakes_in_conditions(tmp_path: Path, where: str, parameters: str, code: str, message: str) -> None:
    text, expected = unmarked(sweep(where, parameters), str(tmp_path / "k.kernel.toml"))
    found = workspace(tmp_path, {"k.kernel.toml": text, "templates/t.hip.j2": FREE})
    assert [one.code for one in found.diagnostics] == [f"kernel-file/{code}"], found.diagnostics
    assert message in found.diagnostics[0].message
    assert found.diagnostics[0].span == expected


def deriving(expressions: str, parameters: str = "A = [64, 128]\nB = [1, 0]", where: str = "[]") -> str:
    return sweep(where, parameters) + f"[sweep.derived]\n{expressions}\n"


DERIVED = [
    ('C = "A // 64"', "[]", [1, 1, 2, 2]),
    ('C = "D + B"\nD = "A // 64"', "[]", [2, 1, 3, 2]),
    ('C = "8 if A > 64 else 4"', "[]", [4, 4, 8, 8]),
    ('C = "[4, A // 4, 1]"', "'B == 0'", [(4, 16, 1), (4, 32, 1)]),
    ("C = \"'v1' if B else 'v3'\"", "[]", ["v1", "v3", "v1", "v3"]),
    ('C = "7"', "'C == 7 and A < 100'", [7, 7]),
    ('C = "A * B"', "'C > 64'", [128]),
    ('C = "A / 128"', "'B == 1'", [0.5, 1.0]),
    ('C = "B == 1"', "'A == 64'", [True, False]),
]


@pytest.mark.parametrize(("expressions", "where", "expected"), DERIVED)
def test_derived_parameters(tmp_path: Path, expressions: str, where: str, expected: list[object]) -> None:
    text = deriving(expressions, where=where)
    found = workspace(tmp_path, {"k.kernel.toml": text, "templates/t.hip.j2": FREE})
    assert found.diagnostics == ()
    instances = found.kernels[0].instances
    assert [one.parameters["C"] for one in instances] == expected
    assert all(one.name.count("_") == 2 for one in instances), "derived values are no part of the name"
    last = instances[-1]
    assert str(last.spans["C"].start.line) == str(text.splitlines().index(expressions.splitlines()[0]))
    derived = {line.partition(" ")[0] for line in expressions.splitlines()}
    assert {name for name in last.parameters if last.is_derived(name)} == derived


WRONG_EXPRESSIONS = [
    ('Tile = "A"\nC = "«Tiles»"', "unknown-parameter", "`Tiles`, which no parameter is called; did you mean `Tile`?"),
    ('C = «"A //"»', "invalid-expression", "`A //` is not an expression"),
    ("C = «3»", "wrong-type", 'must be a string with an expression, such as "MPerBlock // 64"'),
    ('C = «"A // B"»', "failing-expression", "`A // B` fails for A = 64, B = 0"),
    ('C = «"{1: A}"»', "failing-expression", "is a table for A = 64; a parameter is an integer"),
    ('C = «"2 ** 63 + B"»', "failing-expression", "a parameter is an integer of 64 bits"),
    ('«A» = "B"', "duplicate-parameter", "`A` is swept, and cannot be derived as well"),
    ('«in» = "B"', "invalid-name", "`in` cannot be a template parameter"),
    ('C = «"C + A"»', "invalid-expression", "`C` is worked out from itself"),
]


@pytest.mark.parametrize(("expressions", "code", "message"), WRONG_EXPRESSIONS)
def test_mistakes_in_derived_parameters(tmp_path: Path, expressions: str, code: str, message: str) -> None:
    text, expected = unmarked(deriving(expressions), str(tmp_path / "k.kernel.toml"))
    found = workspace(tmp_path, {"k.kernel.toml": text, "templates/t.hip.j2": FREE})
    assert [one.code for one in found.diagnostics] == [f"kernel-file/{code}"], found.diagnostics
    assert message in found.diagnostics[0].message
    assert found.diagnostics[0].span == expected


TEN = str(list(range(10)))

LIMITS = [
    ("", "[]", 4, "too-many-instances", "makes 10,000 instances; the limit is 1,000: raise `instances` under [limits]"),
    ("[limits]\ninstances = 10000", "[]", 4, None, ""),
    ("", '["P0 >= 0"]', 4, "too-many-instances", "makes more than 1,000 instances"),
    ("", "[]", 30, "too-many-instances", f"makes {10**30:,} instances"),
    ("", '["P0 != P0"]', 30, "empty-sweep", "no combination meets its conditions"),
    ("", '["P0 + P25 != P0 + P25"]', 26, "too-many-combinations", "raise `combinations` under [limits]"),
    ("[limits]\ncombinations = 5", '["P0 + P1 < 0"]', 2, "too-many-combinations", "5 steps did not decide"),
]


@pytest.mark.parametrize(("settings", "where", "axes", "code", "message"), LIMITS)
def test_limits(tmp_path: Path, settings: str, where: str, axes: int, code: str | None, message: str) -> None:
    letters = [f"P{index}" for index in range(axes)]
    text = sweep(where, "\n".join(f"{name} = {TEN}" for name in letters))
    found = workspace(tmp_path, {"ckwatch.toml": settings, "k.kernel.toml": text, "templates/t.hip.j2": FREE})
    if code is None:
        assert (len(found.kernels[0].instances), found.diagnostics) == (10_000, ())
        return
    (diagnostic,) = found.diagnostics
    assert diagnostic.code == f"kernel-file/{code}"
    assert message in diagnostic.message
    assert str(diagnostic.span.start) == "9:8"


def test_the_limit_counts_all_instances_of_a_file(tmp_path: Path) -> None:
    text = KERNEL + '[[sweep]]\nname = "s"\nparameters = { NPerBlock = [1, 2] }\n'
    found = workspace(tmp_path, {"ckwatch.toml": "[limits]\ninstances = 2", "k.kernel.toml": text})
    (diagnostic,) = found.diagnostics
    assert diagnostic.message.startswith("sweep `s` makes 2 instances beside 1 others; the limit is 2")
    assert [instance.name for instance in found.kernels[0].instances] == ["first"]


def test_instances_written_out_are_limited_too(tmp_path: Path) -> None:
    text = KERNEL + '[[instance]]\nname = "second"\nMPerBlock = 1\n'
    found = workspace(tmp_path, {"ckwatch.toml": "[limits]\ninstances = 1", "k.kernel.toml": text})
    assert [(one.code, str(one.span.start)) for one in found.diagnostics] == [
        ("kernel-file/too-many-instances", "13:8")
    ]


def test_a_base_with_mistakes_is_reported_once(tmp_path: Path) -> None:
    text = TOP + OPERATION + '[[instance]]\nname = "b"\nMPerBlock = {}\n'
    text += '[[sweep]]\nname = "s"\nbase = "b"\nparameters = { NPerBlock = [1] }\n'
    found = workspace(tmp_path, {"k.kernel.toml": text})
    assert [one.code for one in found.diagnostics] == ["kernel-file/wrong-type"]
    assert found.kernels == ()
