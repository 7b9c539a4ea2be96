"""Sizes that custom operations are verified on: what they try, and what they leave alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from ckwatch.model.kernels import Operation, ParameterValue, SizeLimits, Tensor
from ckwatch.model.tensor_values import ContentKind, TensorValues
from ckwatch.model.tensors import contiguous_strides, evaluate_size
from ckwatch.verification.custom_shapes import MOST_ELEMENTS, CustomSizes, derived_sizes

BLOCK: Mapping[str, ParameterValue] = {"BlockSize": 64}


def tensor(
    name: str,
    *sizes: str,
    strides: Sequence[str] | None = None,
    values: TensorValues | None = None,
    empty: bool = False,
) -> Tensor:
    steps = contiguous_strides(sizes, "row") if strides is None else tuple(strides)
    return Tensor(name, "f32", "row", sizes, steps, name, values, may_be_empty=empty)


def operation(sizes: str, *tensors: Tensor, **limits: SizeLimits) -> Operation:
    inputs = tuple((one.name, one) for one in tensors[:-1])
    last = tensors[-1]
    return Operation("custom", inputs, ((last.name, last),), "f32", tuple(sizes.split()), (), limits=limits)


def derived(
    made: Operation, *shapes: Mapping[str, int], parameters: Mapping[str, ParameterValue] = BLOCK
) -> dict[str, CustomSizes]:
    found = derived_sizes(made, parameters, shapes)
    assert len({one.name for one in found}) == len(found)
    return {one.name: one for one in found}


ROWS = operation("M N", tensor("X", "M", "N"), tensor("Y", "M", "N"))


def test_essential_and_further_sizes() -> None:
    found = derived(ROWS, {"M": 1000, "N": 4096})
    assert {name: dict(one.sizes) for name, one in found.items() if one.essential} == {
        "ragged": {"M": 69, "N": 67},
        "one beyond the block": {"M": 65, "N": 65},
        "less than a block": {"M": 31, "N": 30},
        "least sizes": {"M": 1, "N": 1},
        "multiples of 8": {"M": 16, "N": 24},
    }
    further = [name for name, one in found.items() if not one.essential]
    assert {"odd sizes", "small", "large", "M = 1", "N = 1", "N = 63", "N = 64", "N = 65", "N = 128"} <= set(further)


IMAGES = ("N", "H", "W", "C")


def test_sizes_that_a_threads_elements_divide() -> None:
    """A row of whole pieces of 4, in several rows: with `pieces = width / 4 + 1`, these rows alone are shifted."""
    images = operation("N H W C", tensor("X", *IMAGES), tensor("Y", *IMAGES))
    threads = {"BlockSize": 256, "PixelsPerThread": 4}
    given = dict(zip(IMAGES, (32, 56, 54, 192), strict=True))
    found = derived(images, given, parameters=threads)
    assert dict(found["multiples of 4"].sizes) == dict(zip(IMAGES, (8, 12, 16, 20), strict=True))
    reduced = found["32x56x54x192 reduced"].sizes
    assert [reduced[name] % 4 for name in IMAGES] == [given[name] % 4 for name in IMAGES]
    assert reduced["H"] > 1
    assert reduced["W"] > 4
    assert not any("reduced" in name for name in derived(images, dict.fromkeys(IMAGES, 9), parameters=threads))


def test_without_shapes_there_is_a_typical_one() -> None:
    assert dict(derived(ROWS)["typical"].sizes) == {"M": 128, "N": 128}


@pytest.mark.parametrize(
    ("parameters", "n"),
    [
        ({"TileM": 16, "TileN": 32}, 35),
        ({"BLOCK_N": 128, "BLOCK_M": 8}, 131),
        ({"Threads": 64, "Vector": 4}, 259),
        ({"Layout": "row", "Pad": 2}, 259),
        ({"NPerBlock": 48}, 51),
    ],
)
def test_blocks_are_those_of_the_parameters(parameters: Mapping[str, ParameterValue], n: int) -> None:
    assert derived(ROWS, {"M": 1000, "N": 4096}, parameters=parameters)["ragged"].sizes["N"] == n


def test_tensors_stay_small() -> None:
    cube = operation("A B C", tensor("X", "A", "B", "C"), tensor("Y", "A", "B", "C"))
    for one in derived(cube, {"A": 512, "B": 512, "C": 512}, parameters={"BlockSize": 1024}).values():
        assert 2 * one.sizes["A"] * one.sizes["B"] * one.sizes["C"] <= MOST_ELEMENTS
    assert derived(cube, {"A": 512, "B": 512, "C": 512})["ragged"].sizes["C"] == 71


def test_limits_hold() -> None:
    made = operation(
        "M N K",
        tensor("X", "M", "N"),
        tensor("Y", "M", "K"),
        N=SizeLimits("16", "100", 8),
        K=SizeLimits(None, "N"),
    )
    found = derived(made, {"M": 1000, "N": 64, "K": 8}, {"M": 77, "N": 96, "K": 96})
    for one in found.values():
        assert one.sizes["N"] in range(16, 97, 8)
        assert 1 <= one.sizes["K"] <= one.sizes["N"]
    assert {one.sizes["N"] for one in found.values()} >= {16, 64, 72, 96}


def test_a_size_that_cannot_change_does_not() -> None:
    fixed = derived(operation("N", tensor("Y", "N"), N=SizeLimits("64", "64")), {"N": 64})
    assert {one.sizes["N"] for one in fixed.values()} == {64}


def test_what_shapes_have_in_common_is_kept() -> None:
    heads = operation("T D H E", tensor("X", "T", "D"), tensor("W", "H", "E"), tensor("Y", "T", "D"))
    for one in derived(heads, {"T": 100, "D": 1024, "H": 16, "E": 64}, {"T": 7, "D": 512, "H": 8, "E": 64}).values():
        assert one.sizes["D"] == one.sizes["H"] * one.sizes["E"]
    parts = operation("N A B", tensor("X", "A"), tensor("Z", "B"), tensor("Y", "N"))
    for one in derived(parts, {"N": 100, "A": 60, "B": 40}, {"N": 30, "A": 10, "B": 20}).values():
        assert one.sizes["N"] == one.sizes["A"] + one.sizes["B"]
    best = operation("M N K", tensor("X", "M", "N"), tensor("Y", "M", "K"))
    assert all(one.sizes["K"] <= one.sizes["N"] for one in derived(best, {"M": 9, "N": 1000, "K": 8}).values())


def test_what_is_no_extent_stays() -> None:
    made = operation("N Window Mode", tensor("X", "N"), tensor("Y", "N"))
    for one in derived(made, {"N": 1000, "Window": 7, "Mode": 2}).values():
        assert (one.sizes["Window"], one.sizes["Mode"]) == (7, 2)


@pytest.mark.parametrize(("size", "step"), [("N / 8", 8), ("N / 4 + 1", 4), ("(N + 7) / 8", 1), ("2 * N", 1)])
def test_divisors_are_kept(size: str, step: int) -> None:
    found = derived(operation("N", tensor("X", "N"), tensor("Y", size)), {"N": 1024})
    assert all(one.sizes["N"] % step == 0 for one in found.values())
    assert any(one.sizes["N"] % (2 * step) for one in found.values())


def test_sizes_that_divide_each_other_stay() -> None:
    made = operation("T H G", tensor("X", "T", "H"), tensor("Z", "T", "H / G"), tensor("Y", "T", "H"))
    for one in derived(made, {"T": 100, "H": 32, "G": 4}).values():
        assert (one.sizes["H"], one.sizes["G"]) == (32, 4)


def test_a_file_fixes_sizes() -> None:
    table = tensor("X", "M", "N", values=TensorValues(kind=ContentKind.FILE, file="x.npy"))
    found = derived(operation("M N T", table, tensor("Y", "T")), {"M": 5, "N": 7, "T": 100})
    assert {(one.sizes["M"], one.sizes["N"]) for one in found.values()} == {(5, 7)}
    assert len({one.sizes["T"] for one in found.values()}) > 5


def test_values_that_are_not_possible_are_left_out() -> None:
    found = derived(
        operation(
            "N", tensor("X", "N", values=TensorValues(kind=ContentKind.INDEX, bounds=("2", "N"))), tensor("Y", "N")
        ),
        {"N": 100},
    )
    assert all(one.sizes["N"] > 2 for one in found.values())
    assert "least sizes" not in found


STRIDED = operation("M N LDX", tensor("X", "M", "N", strides=("LDX", "1")), tensor("Y", "M", "N"))


def test_strides_follow_and_leave_gaps() -> None:
    found = derived(STRIDED, {"M": 100, "N": 100, "LDX": 128})
    assert dict(found["ragged"].sizes) == {"M": 69, "N": 67, "LDX": 67}
    assert (found["padded rows"].sizes["LDX"], found["padded rows"].gaps, found["padded rows"].essential) == (
        99,
        True,
        True,
    )
    assert found["large strides"].sizes["LDX"] > 1 << 16
    far = found["offsets beyond 32 bits"]
    assert far.dense == found["ragged"].sizes
    assert not far.essential
    assert evaluate_size("(M - 1) * LDX", far.sizes) > 1 << 31


def test_strides_have_limits_too() -> None:
    limited = operation(
        "M N LDX",
        tensor("X", "M", "N", strides=("LDX", "1")),
        tensor("Y", "M", "N"),
        LDX=SizeLimits("N", "8192", 4),
    )
    found = derived(limited, {"M": 100, "N": 100, "LDX": 128})
    assert all(one.sizes["N"] <= one.sizes["LDX"] <= 8192 and one.sizes["LDX"] % 4 == 0 for one in found.values())
    assert "offsets beyond 32 bits" not in found


def test_strides_of_overlapping_rows_stay() -> None:
    windows = derived(STRIDED, {"M": 100, "N": 100, "LDX": 1})
    assert {one.sizes["LDX"] for one in windows.values()} == {1}


def test_rows_that_would_overlap_are_left_out() -> None:
    made = operation("M N L", tensor("X", "M", "N"), tensor("Y", "M", "N", strides=("2 * L", "1")))
    for one in derived(made, {"M": 100, "N": 100, "L": 50}).values():
        assert one.sizes["N"] <= 100


def test_zero_where_limits_allow_it() -> None:
    empty = operation(
        "M N",
        tensor("X", "M", "N", empty=True),
        tensor("Y", "M", "N", empty=True),
        M=SizeLimits("0"),
        N=SizeLimits("1"),
    )
    found = derived(empty, {"M": 100, "N": 100})
    assert (found["M = 0"].sizes["M"], found["M = 0"].essential) == (0, True)
    assert not any(one.sizes["N"] == 0 for one in found.values())
    assert "M = 0" not in derived(ROWS, {"M": 100, "N": 100})


def test_nothing_of_constants() -> None:
    assert derived(operation("", tensor("X", "64"), tensor("Y", "64"))) == {}
