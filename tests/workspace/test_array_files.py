"""NumPy files as the content of tensors: their headers, what fits, and when they are read again."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest

from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernel_problem import problem_of
from ckwatch.model.tensor_values import ContentKind
from ckwatch.workspace.array_files import ArrayFile, ArrayFileError, array_contents, array_file, why_not_of
from ckwatch.workspace.loading import Workspace
from ckwatch.workspace.reloading import WorkspaceLoader
from helpers.each_row import each_row
from workspace.operations.test_tensor_values import loaded, mistake

VALUES = 'values = "index.npy"'


def saved(array: object, *, version: tuple[int, int] | None = None) -> bytes:
    content = io.BytesIO()
    np.lib.format.write_array(content, np.asarray(array), version, allow_pickle=True)
    return content.getvalue()


@each_row("version", [(1, 0), (2, 0), (3, 0)])
@each_row("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"])
def test_headers(dtype: str, version: tuple[int, int]) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    found = array_file(saved(np.asfortranarray(array), version=version))
    assert (found.shape, np.dtype(found.element)) == ((2, 3), array.dtype)
    assert found.integers == (None if dtype[0] == "f" else (int(array.min()), int(array.max())))


@each_row(
    ("content", "message"),
    [
        (b"", "it is not a NumPy file, as `numpy.save` writes it"),
        (b"PK\x03\x04 some archive of arrays", "it is not a NumPy file"),
        (saved([{}]), "it holds Python objects or records, not numbers"),
        (saved(np.zeros(2, [("a", "i4")])), "it holds Python objects or records, not numbers"),
        (saved(["a"]), "it holds elements of type `<U1`, not numbers"),
        (saved(np.zeros(2, "c8")), "it holds elements of type `<c8`, not numbers"),
        (saved(np.zeros(2, ">f4")), "its numbers are big-endian"),
        (saved(np.zeros(2))[:-1], "it has 15 bytes of numbers, and its header says 16"),
        (saved(np.zeros(2))[:40], "it is cut off"),
        (saved(np.zeros(2)).replace(b"shape", b"shepa"), "its header is damaged"),
        (saved(np.zeros(2)).replace(b"(2,)", b"(-2)"), "its header is damaged"),
        (b"\x93NUMPY\x09\x00" + saved(np.zeros(2))[8:], "it has version 9 of NumPy's format"),
    ],
)
def test_what_is_no_array(content: bytes, message: str) -> None:
    with pytest.raises(ArrayFileError) as error:
        array_file(content)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("dtype", "found", "message"),
    [
        ("f16", ArrayFile("i8", (2,), (0, 70000)), ""),
        ("i32", ArrayFile("i8", (2,), (-5, 70000)), ""),
        ("i32", ArrayFile("i8", (2,), (0, 2**31)), "it holds 0 to 2147483648, and i32 holds -2147483648 to 2147483647"),
        ("i32", ArrayFile("f4", (2,)), "it holds floats (float32), and the tensor i32"),
        ("bool", ArrayFile("u1", (2,), (0, 2)), "it holds 0 to 2, and bool holds 0 to 1"),
        ("u8", ArrayFile("b1", (2,), (0, 1)), ""),
    ],
)
def test_what_fits_a_dtype(dtype: str, found: ArrayFile, message: str) -> None:
    assert why_not_of(dtype, found) == message


def test_a_file_is_named_by_its_content(tmp_path: Path) -> None:
    content = saved([3, 1, 4, 1, 5])
    (tmp_path / "index.npy").write_bytes(content)
    workspace = loaded(tmp_path, VALUES)
    assert workspace.diagnostics == ()
    assert str(tmp_path / "index.npy") in workspace.files
    kernel = workspace.kernels[0]
    values = problem_of(kernel.operation, kernel.shapes[0], "gfx942").buffer("Index").values
    assert values is not None
    assert (values.kind, values.file, len(values.digest)) == (ContentKind.FILE, "", 64)
    assert array_contents(kernel.operation) == (content,)
    (tmp_path / "index.npy").write_bytes(saved([3, 1, 4, 1, 6]))
    with pytest.raises(CkwatchError, match="has just changed"):
        array_contents(kernel.operation)
    (tmp_path / "index.npy").unlink()
    with pytest.raises(CkwatchError, match="cannot be read: no such file"):
        array_contents(kernel.operation)


@pytest.mark.parametrize(
    ("array", "code", "place", "message"),
    [
        (None, "missing-file", '"index.npy"', "there is no file "),
        ([1.0, 2, 3, 4, 5], "dtype-mismatch", '"index.npy"', "it holds floats (float64), and the tensor i32"),
        ([[1, 2, 3, 4, 5]], "dimension-mismatch", '"index.npy"', "the file's array has 2 axes, and Index has 1"),
        ([1, 2, 3], "shape-mismatch", "[[shape]]", "Index is 5 here, and its file holds 3"),
        ({}, "invalid-array", '"index.npy"', "index.npy cannot be the content of Index: it holds Python objects"),
    ],
)
def test_mistakes(tmp_path: Path, array: object, code: str, place: str, message: str) -> None:
    if array is not None:
        (tmp_path / "index.npy").write_bytes(saved(array))
    found = mistake(tmp_path, VALUES)
    assert found[:2] == (code, place)
    assert message in found[2]


def test_a_file_outside_of_the_workspace(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "index.npy").write_bytes(saved([1, 2, 3, 4, 5]))
    assert mistake(inside, 'values = "../index.npy"')[0] == "outside"
    (inside / "index.npy").symlink_to(tmp_path / "index.npy")
    assert mistake(inside, VALUES)[0] == "outside"


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    with (tmp_path / "index.npy").open("wb") as file:
        os.truncate(file.fileno(), (1 << 26) + 1)
    assert mistake(tmp_path, VALUES)[1:] == ('"index.npy"', "index.npy cannot be read: larger than 64 MiB")


def test_a_changed_file_is_a_changed_kernel(tmp_path: Path) -> None:
    (tmp_path / "index.npy").write_bytes(saved([3, 1, 4, 1, 5]))
    loaded(tmp_path, VALUES)
    loader = WorkspaceLoader(tmp_path)

    def digest(workspace: Workspace) -> str:
        (values,) = (one.values for one in workspace.kernels[0].operation.tensors if one.values is not None)
        return values.digest

    first = loader.load()
    assert loader.load().kernels[0] == first.kernels[0]
    (tmp_path / "index.npy").write_bytes(saved([3, 1, 4, 1, 6]))
    assert digest(loader.load()) != digest(first)
    (tmp_path / "index.npy").unlink()
    assert [one.code for one in loader.load().diagnostics] == ["kernel-file/missing-file"]
