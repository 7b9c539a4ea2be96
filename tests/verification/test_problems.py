"""The problems that a unit is verified on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.verification import ARCHS, LEAST, SHIPPED, least_of, shipped_units
from cases.gemm_case import GemmCase
from ckwatch.checks.supported_shapes import unsupported_reason
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernel_problem import problem_of
from ckwatch.model.kernels import ParameterValue, Shape, Unit
from ckwatch.model.text import span
from ckwatch.model.trials import GEMM_CONTENTS, Contents, GapFill, Trial
from ckwatch.model.verification import VerificationDepth
from ckwatch.verification.problems import ESSENTIAL as ESSENTIALS
from ckwatch.verification.problems import FAR, THOROUGH, WHOLE_MACS, far_apart, shape_text, trials_asked, trials_of

Parameters = dict[str, ParameterValue]
ESSENTIAL = VerificationDepth.ESSENTIAL

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
    names = [trial.name for trial in trials_of(unit(PIPELINED), ESSENTIAL)]
    assert names == [
        "exact", "exact, one step more along K", "ragged", "odd sizes", "smaller than a tile", "M = 1", "padded rows",
        "NaN in the padding", "infinity in the padding", "offsets beyond 32 bits", "misaligned",
        "misaligned vectors", "misaligned rows", "split K", "split K, slices of unequal length", "split K, short K",
    ]  # fmt: skip


@pytest.mark.parametrize("split_k", [False, True])
@pytest.mark.parametrize("parameters", [PIPELINED, ANY_SIZE, PIPELINED | {"BlkGemmPipelineVer": "v1"}])
def test_a_thorough_verification_tries_thirty_problems_and_the_essential_ones(
    parameters: Parameters, split_k: bool
) -> None:
    made = unit(parameters, split_k=split_k)
    essential, thorough = trials_of(made, ESSENTIAL), trials_of(made)
    assert len(thorough) >= LEAST
    assert set(essential) < set(thorough)
    assert len({trial.name for trial in thorough}) == len(thorough)


def test_shipped_units_are_tried_on_thirty_problems_each() -> None:
    units = list(shipped_units(()))
    assert {example for example, _ in units} == set(SHIPPED)
    assert {made.arch for _, made in units} == set(ARCHS)
    assert [made.id for _, made in units if len(trials_of(made)) < least_of(made)] == []


def test_k_is_split_where_the_kernel_can() -> None:
    def splits(made: Unit) -> list[str | None]:
        return [trial.refusal for trial in trials_of(made, ESSENTIAL) if trial.name.startswith("split K")]

    assert len(splits(unit(PIPELINED))) == 3
    assert splits(unit(PIPELINED, split_k=False)) == ["kBatch must be 1 without split_k = true in [operation]"]
    assert splits(unit(ANY_SIZE, split_k=False)) == [None] * 3


def test_shapes_follow_from_the_tile_and_what_the_pipeline_needs() -> None:
    trials = trials_of(unit(PIPELINED))
    assert sizes(named(trials, "exact")) == (128, 128, 5 * 64)  # v4 needs more than three rounds
    assert sizes(named(trials, "ragged")) == (128 + 5, 128 + 3 * 8, 5 * 64 + 3 * 8)  # vectors of eight along N and K
    assert sizes(named(trials, "least K")) == (128, 128, 3 * 64 + 8)
    assert sizes(named(trials, "M = 1, N = 8")) == (1, 8, 4 * 64)
    assert all(size < 128 for size in sizes(named(trials, "smaller than a tile"))[:2])
    assert sizes(named(trials_of(unit(ANY_SIZE)), "ragged")) == (37, 19, 19)
    assert sizes(named(trials_of(unit(ANY_SIZE)), "least K")) == (32, 16, 1)


def test_only_shapes_that_must_be_refused_are() -> None:
    refused = {trial.name: trial.refusal for trial in trials_of(unit(PIPELINED)) if trial.refusal}
    assert refused == {
        **{
            f"offsets{one} beyond 32 bits": f"{one[4:5] or 'X'} reaches beyond 2 GiB"
            for one in ("", " of X alone", " of W alone", " of Y alone")
        },
        "odd sizes": "K = 323 is not a multiple of ABlockTransferSrcScalarPerVector = 8",
        "too little K": "K = 192 is 3 × KPerBlock: pipeline v4 needs more than 3",
        "split K, too little K": "K = 768 is 3 × KPerBlock in each of 4 slices: pipeline v4 needs more than 3",
    }


def test_a_refusal_needs_a_rule_where_there_are_any_and_pointers_are_aligned() -> None:
    may = {trial.name for trial in trials_of(unit(PIPELINED)) if trial.refusal is None}
    assert may == {
        "misaligned", "misaligned vectors", "X alone misaligned", "W alone misaligned", "Y alone misaligned"
    }  # fmt: skip
    assert {trial.refusal for trial in trials_of(unit(ANY_SIZE))} == {None}


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
    alone = named(trials, "W alone misaligned")
    assert [alone.offset_of(buffer.name) for buffer in alone.problem.buffers] == [0, 2, 0]
    strides = {view.buffer: max(view.strides) for view in named(trials, "padding of W alone").problem.views}
    m, n, k = sizes(named(trials, "padding of W alone"))
    assert strides == {"X": k, "W": k + 32, "Y": n}
    assert m > 128


def test_offsets_need_more_than_32_bits() -> None:
    for made in (unit(PIPELINED), unit(ANY_SIZE)):
        trial = named(trials_of(made, ESSENTIAL), FAR)
        assert trial.dense is not None
        for buffer, dense in zip(trial.problem.buffers, trial.dense.buffers, strict=True):
            assert buffer.elements > 1 << 31
            assert buffer.size_bytes > 1 << 32
            assert dense.size_bytes < 1 << 20
        assert [view.sizes for view in trial.problem.views] == [view.sizes for view in trial.dense.views]
        assert all(0 <= int(one.value or 0) < 1 << 31 for one in trial.problem.arguments if one.buffer is None)
        alone = named(trials_of(made), "offsets of W alone beyond 32 bits").problem
        assert [one.name for one in alone.buffers if one.elements > 1 << 31] == ["W"]


def test_the_greatest_stride_alone_is_large() -> None:
    operation = unit(PIPELINED).kernel.operation
    assert far_apart(operation, {"M": 1, "N": 1, "K": 1}) is None  # no tensor has a second row
    sizes = far_apart(operation, {"M": 2, "N": 1, "K": 8})
    assert sizes is not None
    assert sizes["LDA"] == ((1 << 31) - 1) // 64 * 64  # the most that an argument can be


USUAL = {Contents.RANDOM, *GEMM_CONTENTS}


def test_inputs_of_each_kind_are_tried_where_they_can_be() -> None:
    def kinds(case: GemmCase) -> set[Contents]:
        return {trial.contents for trial in trials_of(unit(PIPELINED, case=case))}

    assert kinds(GemmCase(layouts="row col row")) == USUAL - {Contents.SIGNED_SCALES}
    assert kinds(GemmCase(layouts="row col row", scale_a="row", scale_b="row")) == USUAL


def test_types_without_infinity_have_no_problem_with_it() -> None:
    case = GemmCase(a="f8", b="f8", layouts="row col row")
    assert "infinity in the padding" not in {trial.name for trial in trials_of(unit(PIPELINED, case=case))}


def test_the_kernel_files_shapes_come_first_and_large_ones_in_part() -> None:
    kernel = unit(
        PIPELINED,
        shape("small", 256, 256, 256),
        shape("large", 4096, 4096, 4096),
        shape("long", 256, 256, 65536, slices=8),
        shape("longer", 4096, 4096, 4096, slices=8),
        shape("huge", 1 << 16, 1 << 15, 1 << 10),
    )
    trials = trials_of(kernel)
    assert [trial.name for trial in trials[:6]] == ["small", "large", "long", "longer", "huge", "exact"]
    assert [trial.workgroups for trial in trials[:5]] == [None, 8, None, None, None]
    assert WHOLE_MACS < 4096**3
    assert [trial.not_tried for trial in trials[:3]] == ["", "", ""]
    assert named(trials, "longer").not_tried == (
        "it is too large to be executed whole (69 G multiply-adds), and in part it cannot be: each slice of K is needed"
    )
    assert named(trials, "huge").not_tried == "it is too large to be executed here: its tensors have 4.2 GiB"
    assert [trial.name for trial in trials_of(kernel, ESSENTIAL)[:2]] == ["small", "exact"]


def test_single_problems_are_asked_for_by_name_or_sizes() -> None:
    one, other = unit(PIPELINED, shape("mine", 256, 256, 256)), unit(ANY_SIZE)
    other = replace(other, instance=replace(other.instance, name="other"))
    found = trials_asked([one, other], ["mine", "M = 1", "M=64,N=48,K=200,LDA=208 kBatch=2"])
    assert [trial.name for trial in found[one.id]] == ["mine", "M = 1", "M=64,N=48,K=200,LDA=208 kBatch=2"]
    assert [trial.shape for trial in found[other.id]][1:] == ["M=64 N=48 K=200 LDA=208 kBatch=2"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("exakt", "none of these units is verified on a shape 'exakt'"),
        ("M=64,N=64", "'M=64,N=64' does not say K"),
        ("M=64,N=64,K=64,LDX=3", "'LDX=3' is not a size of"),
        ("M=64,N=64,K=-1", "'K=-1' is not a size of"),
        ("M=64,N=64,K=64,LDA=63", "'M=64,N=64,K=64,LDA=63': `LDA` must be at least 64: X is M × K, layout row"),
        ("M=0,N=64,K=64", "'M=0,N=64,K=64': `M` must be at least 1"),
    ],
)
def test_what_means_no_problem_says_so(asked: str, message: str) -> None:
    with pytest.raises(CkwatchError) as error:
        trials_asked([unit(PIPELINED)], [asked])
    assert message in str(error.value)


def test_the_documentation_names_every_problem() -> None:
    text = (Path(__file__).parents[2] / "docs/verifying.md").read_text()
    names = [
        row.name.replace("{m}", "1").replace("{n}", "1").replace("{only}", "X") for row in (*ESSENTIALS, *THOROUGH)
    ]
    assert [name for name in names if f"`{name}`" not in text] == []


def test_equal_problems_are_tried_once() -> None:
    same = shape("mine", 128, 128, 320)
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
