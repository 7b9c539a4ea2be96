"""The problems that a unit is verified on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ckwatch.checks.supported_shapes import unsupported_reason
from ckwatch.emulation.problems import WHOLE_MACS, GapFill, Trial, shape_text, trials_of
from ckwatch.model.kernel_problem import problem_of
from ckwatch.model.kernels import ParameterValue, Shape, Unit
from ckwatch.model.text import span
from gemm_case import GemmCase

Parameters = dict[str, ParameterValue]

PIPELINED: Parameters = {
    "GemmSpec": "MNKPadding", "BlockSize": 256, "MPerBlock": 128, "NPerBlock": 128, "KPerBlock": 64, "AK1": 8, "BK1": 8,
    "ABlockTransferSrcScalarPerVector": 8, "BBlockTransferSrcScalarPerVector": 8,
    "CDEShuffleBlockTransferScalarPerVectors": (8,), "BlkGemmPipelineVer": "v4",
}  # fmt: skip
ANY_SIZE: Parameters = {"BlockSize": 64, "MPerBlock": 32, "NPerBlock": 16, "KPerBlock": 8}


def shape(name: str, m: int, n: int, k: int, slices: int = 1) -> Shape:
    sizes = {"M": m, "N": n, "K": k, "LDA": k, "LDB": k, "LDC": n, "LDD": 0}
    return Shape(name, sizes, {"kBatch": slices}, span("/k.toml", 0, 0, 0, 0))


def unit(parameters: Parameters, *shapes: Shape, case: GemmCase | None = None, split_k: bool = True) -> Unit:
    made = (case or GemmCase(layouts="row col row")).unit("ck/gemm_universal.hip.j2", parameters, shapes)
    operation = made.kernel.operation
    settings = {**operation.settings, "split_k": split_k}
    return replace(made, kernel=replace(made.kernel, operation=replace(operation, settings=settings)))


def named(trials: tuple[Trial, ...], name: str) -> Trial:
    return next(trial for trial in trials if trial.name == name)


def sizes(trial: Trial) -> tuple[int, int, int]:
    gemm = trial.problem.gemm
    assert gemm is not None
    return gemm.x.sizes[0], gemm.w.sizes[1], gemm.x.sizes[1]


def test_each_kind_of_shape_is_tried() -> None:
    names = [trial.name for trial in trials_of(unit(PIPELINED))]
    assert names == [
        "exact", "exact, one step more along K", "odd sizes", "ragged", "smaller than a tile", "M = 1", "padded rows",
        "NaN in the padding", "infinity in the padding", "misaligned",
        "misaligned vectors", "misaligned rows", "split K", "split K, slices of unequal length", "split K, short K",
    ]  # fmt: skip


def test_k_is_split_where_the_kernel_can() -> None:
    def splits(made: Unit) -> bool:
        return any(trial.name.startswith("split K") for trial in trials_of(made))

    assert splits(unit(PIPELINED))
    assert not splits(unit(PIPELINED, split_k=False))
    assert splits(unit(ANY_SIZE, split_k=False))


def test_shapes_follow_from_the_tile_and_what_the_pipeline_needs() -> None:
    trials = trials_of(unit(PIPELINED))
    assert sizes(named(trials, "exact")) == (128, 128, 4 * 64)  # v4 needs more than three rounds
    assert sizes(named(trials, "ragged")) == (168, 152, 256 + 24)  # vectors of eight
    assert sizes(named(trials, "M = 1"))[0] == 1
    assert all(size < 128 for size in sizes(named(trials, "smaller than a tile"))[:2])
    assert sizes(named(trials_of(unit(ANY_SIZE)), "ragged")) == (37, 19, 19)


def test_only_shapes_that_must_be_refused_are() -> None:
    refused = {trial.name: trial.refusal for trial in trials_of(unit(PIPELINED)) if trial.refusal}
    assert refused == {
        "odd sizes": "K = 259 is no multiple of ABlockTransferSrcScalarPerVector = 8",
        "split K, short K": "K = 64 is 1 × KPerBlock in each of 4 slices: pipeline v4 needs more than 3",
    }
    assert not any(trial.refusal for trial in trials_of(unit(ANY_SIZE)))


def test_without_padding_sizes_are_as_ragged_as_the_instance_takes_them() -> None:
    parameters = PIPELINED | {"GemmSpec": "MNPadding"}
    trials = trials_of(unit(parameters))
    ragged = named(trials, "ragged")
    assert sizes(ragged)[2] % 64 == 0
    assert not unsupported_reason(parameters, ragged.problem)


def test_padding_lies_in_each_matrix() -> None:
    trials = trials_of(unit(PIPELINED))
    for name in ("padded rows", "NaN in the padding", "infinity in the padding", "misaligned rows"):
        problem = named(trials, name).problem
        for view in problem.views:
            assert max(view.strides) > min(view.sizes)
            assert problem.buffer(view.buffer).elements > view.sizes[0] * view.sizes[1]
    assert named(trials, "infinity in the padding").gaps is GapFill.INFINITY
    assert named(trials, "misaligned").offset == 1


def test_types_without_infinity_have_no_problem_with_it() -> None:
    case = GemmCase(a="f8", b="f8", layouts="row col row")
    assert "infinity in the padding" not in {trial.name for trial in trials_of(unit(PIPELINED, case=case))}


def test_the_kernel_files_shapes_come_first_and_large_ones_in_part() -> None:
    kernel = unit(
        PIPELINED,
        shape("small", 256, 256, 256),
        shape("large", 4096, 4096, 4096),
        shape("long", 256, 256, 65536, slices=8),
        shape("huge", 1 << 16, 1 << 15, 1 << 10),
    )
    trials = trials_of(kernel)
    assert [trial.name for trial in trials[:3]] == ["small", "large", "exact"]
    assert named(trials, "small").workgroups is None
    assert named(trials, "large").workgroups == 8
    assert WHOLE_MACS < 4096**3
    assert "large" not in {trial.name for trial in trials_of(kernel, large=False)}
    assert [trial.name for trial in trials_of(kernel, shapes=["large"])] == ["large"]


def test_equal_problems_are_tried_once() -> None:
    same = shape("mine", 128, 128, 256)
    names = [trial.name for trial in trials_of(unit(PIPELINED, same))]
    assert "mine" in names
    assert "exact" not in names


def test_tensors_of_one_buffer_have_equal_sizes() -> None:
    for trial in trials_of(unit(ANY_SIZE, case=GemmCase(same_buffer=True, layouts="row row row"))):
        assert len(set(sizes(trial))) == 1, trial.name


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (shape("a", 128, 64, 32), "M=128 N=64 K=32"),
        (shape("a", 128, 64, 32, slices=2), "M=128 N=64 K=32 kBatch=2"),
        (
            Shape("a", {**shape("a", 8, 8, 8).sizes, "LDA": 40}, {"kBatch": 1}, span("/", 0, 0, 0, 0)),
            "M=8 N=8 K=8 LDA=40",
        ),
    ],
)
def test_a_shape_names_what_it_must(made: Shape, text: str) -> None:
    operation = unit(ANY_SIZE).kernel.operation
    assert shape_text(operation, problem_of(operation, made, "gfx942")) == text
