"""Calls of references in a real process: arguments, answers, mistakes and limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cases.reference_case import reference_kernel, reference_problem
from ckwatch.bench import kept_arrays
from ckwatch.bench.numerics.inputs import make_inputs
from ckwatch.bench.numerics.storage import Storage, narrow, storage_type, widen
from ckwatch.bench.reference_calls import ReferenceCalls, ReferenceMistakeError
from ckwatch.model.kernel_problem import KernelProblem, problem_of
from ckwatch.model.python_references import MistakeKind, ReferenceMistake
from ckwatch.model.tensors import DTYPES

WITH_PARAMETERS = """
def inputs(sizes, rng, Tile):
    return {"Index": [Tile] * sizes["M"]}

def f(X, Index, Tile, *, Groups=(1,)):
    assert Groups == (1,) and list(Index) == [Tile] * 3
    return X + Tile
"""
TWO_OUTPUTS = '[[operation.output]]\nname = "Most"\ndtype = "i8"\nsizes = ["M"]\n'
LIMIT_S = 60.0


class Case:
    """A reference with its problem and inputs."""

    def __init__(self, root: Path, text: str, *, keys: str = "", more: str = "", limit_s: float = LIMIT_S) -> None:
        kernel = reference_kernel(root, text, keys, more)
        assert kernel.operation.reference is not None
        self.problem: KernelProblem = reference_problem(kernel)
        self.inputs: dict[str, Storage] = make_inputs(self.problem, 1)
        self.calls = ReferenceCalls(kernel.operation.reference, limit_s)

    def outputs(self) -> dict[str, np.ndarray]:
        return dict(self.calls.outputs(self.problem, self.inputs))

    def mistake(self) -> ReferenceMistake:
        with pytest.raises(ReferenceMistakeError) as raised:
            self.outputs()
        return raised.value.mistake


@pytest.fixture
def cases() -> Iterator[list[Case]]:
    made: list[Case] = []
    yield made
    for case in made:
        case.calls.close()


def test_arguments_are_what_the_kernel_gets(tmp_path: Path, cases: list[Case]) -> None:
    text = """
import numpy as np

def f(X, Index, M, N, scale, flag, *, more=3, **others):
    assert X.dtype == np.float64 and X.shape == (3, 5)
    assert Index.dtype == np.int32 and Index.shape == (3,)
    assert (type(M), M, N, more, others) == (int, 3, 5, 3, {})
    assert scale == float(np.float32(0.1)) and flag is True
    return X + Index[:, None]
"""
    cases.append(case := Case(tmp_path, text))
    expected = case.inputs["X"].view(np.float16).astype(np.float64).reshape(3, 5) + case.inputs["Index"][:, None]
    np.testing.assert_array_equal(case.outputs()["Y"], expected)


def test_parameters_of_the_instance_are_arguments(tmp_path: Path, cases: list[Case]) -> None:
    cases.append(case := Case(tmp_path, WITH_PARAMETERS))
    called = case.problem.reference
    assert called is not None
    assert called.parameters == (("Tile", 1),)
    case.calls.write_inputs(case.problem, case.inputs, 1, fnuz=False)
    expected = widen(case.inputs["X"], "f16", fnuz=False).reshape(3, 5) + 1
    np.testing.assert_array_equal(case.outputs()["Y"], expected)


@pytest.mark.parametrize(
    "result", ["X, np.argmax(X, axis=1)", "{'Most': X.argmax(axis=1), 'Y': X}", "(X.tolist(), list(X.argmax(axis=1)))"]
)
def test_several_outputs(result: str, tmp_path: Path, cases: list[Case]) -> None:
    cases.append(case := Case(tmp_path, f"import numpy as np\ndef f(X):\n    return {result}\n", more=TWO_OUTPUTS))
    found = case.outputs()
    assert {name: one.dtype for name, one in found.items()} == {"Y": np.float64, "Most": np.int64}
    np.testing.assert_array_equal(found["Most"], found["Y"].argmax(axis=1))


MISTAKES = [
    ("return X.sum(axis=2)", "raises", 3, "AxisError: axis 2 is out of bounds"),
    ("return helper(X)\ndef helper(X):\n    raise KeyError('ß')", "raises", 5, "KeyError: 'ß'"),
    ("import sys; sys.exit(3)", "raises", 3, "SystemExit: 3"),
    ("import nowhere", "raises", 3, "ModuleNotFoundError"),
    ("return X.T", "outputs", 3, "Y has the shape (5, 3); it must be (3, 5): f16 of 3 × 5"),
    ("X = X.T\n    return X", "outputs", 4, "Y has the shape"),
    ("return None", "outputs", 3, "it returns nothing; the outputs are Y"),
    ("pass", "outputs", 2, "it returns nothing"),
    ("return X, X", "outputs", 3, "it returns 2 arrays; the outputs are Y"),
    ("return {'y': X}", "outputs", 3, "a dict with no `Y`"),
    ("return {'Y': X, 'Z': X}", "outputs", 3, "a dict with `Z`, which is not an output"),
    ("return X + 1j", "outputs", 3, "Y has the NumPy type complex128"),
    ("return X.astype(object)", "outputs", 3, "NumPy type object"),
    ("X[1, 2] = np.nan; return X", "nan", 3, "Y[1, 2] is NaN; `nan = true` at Y allows it"),
]


@pytest.mark.parametrize(("body", "kind", "line", "words"), MISTAKES)
def test_mistakes_stand_at_their_lines(
    body: str, kind: str, line: int, words: str, tmp_path: Path, cases: list[Case]
) -> None:
    cases.append(case := Case(tmp_path, f"import numpy as np\ndef f(X):\n    {body}\n"))
    mistake = case.mistake()
    assert (mistake.kind, mistake.line, mistake.path) == (kind, line, str(tmp_path / "reference.py"))
    assert words in mistake.message
    assert case.mistake() == mistake  # it goes on


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("import functools\n@functools.cache\ndef f(x):\n    return x\n", 2, "`f` has a parameter `x`, which is not an input, "),
        ("\ndef f(X, /):\n    return X\n", 2, "takes `X` by place"),
        ("from helper import *\n", 1, "ModuleNotFoundError"),
        ("f = 3\n", 1, "there is no function `f`"),
    ],
)  # fmt: skip
def test_what_cannot_be_called(text: str, line: int, words: str, tmp_path: Path, cases: list[Case]) -> None:
    cases.append(case := Case(tmp_path, text))
    mistake = case.mistake()
    assert (mistake.line, mistake.path) == (line, str(tmp_path / "reference.py"))
    assert words in mistake.message


@pytest.mark.parametrize("dtype", [name for name, one in DTYPES.items() if one.limits is not None])
def test_all_integers_arrive_and_return_exactly(dtype: str, tmp_path: Path, cases: list[Case]) -> None:
    least, greatest = DTYPES[dtype].limits or (0, 0)
    extra = "".join(
        f'[[operation.{table}]]\nname = "{name}"\ndtype = "{dtype}"\nsizes = ["2"]\n'
        for table, name in (("output", "Ends"), ("input", "Given"))
    )
    numpy_type = "bool_" if dtype == "bool" else storage_type(dtype).name
    text = f"""
import numpy as np

def inputs(sizes, rng):
    return {{"Given": np.array([{least}, {greatest}], np.{numpy_type})}}

def f(X, Given):
    assert Given.dtype == np.{numpy_type}
    return X, Given[::-1]
"""
    cases.append(case := Case(tmp_path, text, more=extra))
    case.calls.write_inputs(case.problem, case.inputs, 1, fnuz=False)
    assert case.inputs["Given"].tolist() == [least, greatest]
    assert case.outputs()["Ends"].tolist() == [greatest, least]


def test_integers_that_do_not_fit(tmp_path: Path, cases: list[Case]) -> None:
    cases.append(case := Case(tmp_path, "def f(X, Index):\n    return X, Index + 200\n", more=TWO_OUTPUTS))
    assert "which i8 cannot hold" in case.mistake().message


def test_a_call_without_end_is_ended_and_not_tried_again(tmp_path: Path, cases: list[Case]) -> None:
    cases.append(case := Case(tmp_path, "def f(X):\n    while True:\n        X = X + 1\n", limit_s=1.0))
    mistake = case.mistake()
    assert mistake.kind is MistakeKind.LIMIT
    assert mistake.line in (2, 3)
    assert mistake.message == "it had not ended after 1 s"
    case.calls.close()
    assert case.mistake() == mistake


def test_a_smaller_problem_is_tried_after_one_that_takes_too_long(tmp_path: Path, cases: list[Case]) -> None:
    text = "def f(X, M):\n    while M > 2:\n        pass\n    return X\n"
    cases.append(case := Case(tmp_path, text, limit_s=1.0))
    assert case.mistake().kind is MistakeKind.LIMIT
    kernel = reference_kernel(tmp_path, text)
    (shape,) = kernel.shapes
    case.problem = problem_of(kernel.operation, replace(shape, sizes={"M": 2, "N": 5}), "gfx942")
    case.inputs = make_inputs(case.problem, 1)
    assert case.outputs()["Y"].shape == (2, 5)


def test_memory_has_a_limit(tmp_path: Path, cases: list[Case]) -> None:
    cases.append(case := Case(tmp_path, "import numpy as np\ndef f(X):\n    return np.ones((1 << 34,))\n"))
    mistake = case.mistake()
    assert (mistake.kind, mistake.line) == (MistakeKind.LIMIT, 3)
    assert "more memory than the 4 GiB" in mistake.message


def test_a_process_that_ends_says_so(tmp_path: Path, cases: list[Case]) -> None:
    cases.append(case := Case(tmp_path, "import os, signal\n\ndef f(X):\n    os.kill(os.getpid(), signal.SIGKILL)\n"))
    mistake = case.mistake()
    assert (mistake.line, mistake.message) == (3, "it ended its process by SIGKILL")


def test_it_has_no_secrets_no_files_and_no_output(
    tmp_path: Path, cases: list[Case], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MY_TOKEN", "secret")
    text = f"""
import os, sys
def f(X):
    print("told"); print("told", file=sys.stderr); sys.stdout.flush()
    assert "MY_TOKEN" not in os.environ and sys.stdin.read() == ""
    try:
        os.write(os.open({str(tmp_path / "written")!r}, os.O_WRONLY | os.O_CREAT), b"x")
    except OSError:
        return X
"""
    cases.append(case := Case(tmp_path, text))
    assert case.outputs().keys() == {"Y"}
    assert capfd.readouterr() == ("", "")


def test_what_it_says_about_an_answer_is_not_believed(tmp_path: Path, cases: list[Case]) -> None:
    """A process in which all may have been changed answers what it likes."""
    text = """
import sys
import numpy as np
def f(X):
    process = sys.modules["__main__"]
    process.send = lambda pipe, head, arrays, send=process.send: send(pipe, head, {"Y": np.zeros(3)})
    return X
"""
    cases.append(case := Case(tmp_path, text))
    case.outputs()  # which changed what sends the next answer
    assert case.mistake().message == "its process answers what makes no sense"


def test_inputs_of_the_module(tmp_path: Path, cases: list[Case]) -> None:
    text = """
import numpy as np
def inputs(sizes, rng):
    return {"Index": rng.permutation(sizes["M"]), "X": np.full((3, 5), 0.1)}
def f(X):
    return X
"""
    cases.append(case := Case(tmp_path, text))
    case.calls.write_inputs(case.problem, case.inputs, 1, fnuz=True)
    assert sorted(case.inputs["Index"]) == [0, 1, 2]
    assert set(case.inputs["X"].view(np.float16)) == {np.float16(0.1)}
    first = case.inputs["Index"].copy()
    case.calls.write_inputs(case.problem, case.inputs, 1, fnuz=True)
    assert list(case.inputs["Index"]) == list(first)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ("[1]", "a dict of arrays by name is needed"),
        ("{'Z': 1}", "`inputs` returns `Z`, which is not an input; known: X, Index"),
        ("{'X': [1]}", "X has the shape (1,); it must be (3, 5)"),
        ("{'Index': [1, 2, 1 << 40]}", "which i32 cannot hold"),
    ],
)
def test_mistakes_of_inputs(result: str, words: str, tmp_path: Path, cases: list[Case]) -> None:
    cases.append(case := Case(tmp_path, f"def f(X):\n    return X\n\ndef inputs(sizes, rng):\n    return {result}\n"))
    with pytest.raises(ReferenceMistakeError, match=r"reference\.py:4: ") as raised:
        case.calls.write_inputs(case.problem, case.inputs, 1, fnuz=True)
    assert words in raised.value.mistake.message


def test_a_job_with_another_reference(tmp_path: Path, cases: list[Case]) -> None:
    cases.append(case := Case(tmp_path, "def f(X):\n    return X\n"))
    assert case.problem.reference is not None
    case.problem = replace(case.problem, reference=replace(case.problem.reference, digest="other"))
    assert "another one" in case.mistake().message


def test_slow_results_are_kept_by_what_they_follow_from(
    tmp_path: Path, cases: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_arrays, "SLOW_S", 0.0)
    text = "def f(X):\n    return X\n"
    folder = tmp_path / "kept"

    def outputs(of: str, change: float = 0.0) -> np.ndarray:
        cases.append(case := Case(tmp_path, of))
        reference = reference_kernel(tmp_path, of).operation.reference
        assert reference is not None
        case.inputs["X"] = narrow(widen(case.inputs["X"], "f16", fnuz=False) + change, "f16", fnuz=False)
        case.calls = ReferenceCalls(reference, LIMIT_S, folder)
        return case.outputs()["Y"]

    first = outputs(text)
    assert len(list(folder.iterdir())) == 1
    with monkeypatch.context() as patch:
        patch.setattr(ReferenceCalls, "_started", lambda _: pytest.fail("it was called again"))
        np.testing.assert_array_equal(outputs(text), first)
    outputs(text.replace("X\n", "X * 2\n"))
    outputs(text, change=1.0)
    assert len(list(folder.iterdir())) == 3
    for kept in folder.iterdir():
        kept.write_bytes(kept.read_bytes()[:-3])
    np.testing.assert_array_equal(outputs(text), first)
