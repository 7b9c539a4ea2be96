"""One mistake in a kernel file: its code, its exact place, its words, and no other message."""

from __future__ import annotations

import cProfile
import re
from pathlib import Path

import pytest

from ckwatch.model.diagnostics import Severity
from ckwatch.model.kernels import ParameterValue
from helpers.workspaces import INSTANCE, KERNEL, OPERATION, TOP, gemm_kernel, unmarked, whole_file, workspace


def gemm(old: str, new: str) -> str:
    """A kernel file with one change in its operation."""
    assert old in OPERATION
    return TOP + OPERATION.replace(old, new) + INSTANCE


def with_shape(text: str) -> str:
    return KERNEL + "[[shape]]\n" + text


def custom(text: str) -> str:
    return TOP + '[operation]\nkind = "custom"\n' + text + INSTANCE


SWEEP = '[[sweep]]\nname = "tiles"\nbase = "first"\n[sweep.parameters]\nMPerBlock = [64, 256]\n'
OUTPUT = '[[operation.output]]\nname = "Y"\ndtype = "f16"\nsizes = ["N"]\n'

ROWS = [
    # keys
    (KERNEL.replace("template =", "«tempalte» ="), "unknown-key", "did you mean `template`?"),
    (KERNEL.replace("[operation]", "[«opertion»]"), "unknown-key", "did you mean `operation`?"),
    (gemm('kind = "gemm"', '«knid» = "gemm"'), "unknown-key", "did you mean `kind`?"),
    (KERNEL.replace("[[instance]]\nname", "[[instance]]\n«nmae»"), "unknown-key", "did you mean `name`?"),
    (gemm('kind = "gemm"', 'kind«:» "gemm"'), "syntax", "not `:`"),
    (gemm('a = { dtype = "f16",', "a = { dtype = «f16»,"), "syntax", "a string needs quotes"),
    (with_shape("«m» = 1\nN = 1\nK = 1\n"), "unknown-key", "did you mean `M`?"),
    (gemm('kind = "gemm"', '«type» = "gemm"'), "unknown-key", "did you mean `kind`?"),
    (gemm("c = {", "«d» = {"), "unknown-key", "did you mean `c`, which is missing?"),
    (KERNEL.replace("[[instance]]", "«[instance]»") + SWEEP, "wrong-type", "written [[instance]]"),
    (KERNEL.replace("[[instance]]", "[[«instnace»]]") + SWEEP, "unknown-key", "did you mean `instance`?"),
    (KERNEL.replace("[[instance]]\nname", "[[instance]]\n«nmae»") + SWEEP, "unknown-key", "did you mean `name`?"),
    ("«nme» = 'x'\n" + KERNEL, "unknown-key", "unknown key `nme`; did you mean `name`?"),
    ("«MPerBlock» = 128\n" + KERNEL, "unknown-key", "template parameters belong in [defaults]"),
    ("«activation» = 'relu'\n" + KERNEL, "unknown-key", "`activation` belongs in [operation]"),
    (gemm('kind = "gemm"', 'kind = "gemm"\n«flags» = []'), "unknown-key", "write it above the first table"),
    (gemm('kind = "gemm"', 'kind = "gemm"\n«Alpha» = 1.0'), "unknown-key", "did you mean `alpha`?"),
    (gemm('c = { dtype = "f16", layout', 'c = { dtype = "f16", «lay-out»'), "unknown-key", "did you mean `layout`?"),
    (with_shape("M = 1\nN = 1\nK = 1\n«kbatch» = 2"), "unknown-key", "did you mean `kBatch`?"),
    (KERNEL + '[[sweep]]\nname = "s"\n«bases» = "first"\nparameters = { MPerBlock = [1] }', "unknown-key", "`base`"),
    (TOP + OPERATION + INSTANCE.replace("MPerBlock", "«m_per_block»"), "unknown-parameter", "`MPerBlock`"),
    (KERNEL + "[defaults]\n«n_per_block» = 128", "unknown-parameter", "did you mean `NPerBlock`?"),
    (KERNEL + "[defaults]\n«'N Per Block'» = 128", "invalid-name", "it is not an identifier"),
    (KERNEL + "[defaults]\n«operation» = 128", "reserved-name", "means something else"),
    (KERNEL + "[defaults]\n«Bias» = 128", "reserved-name", "means something else"),
    # what must be there
    ("«»" + OPERATION.lstrip() + INSTANCE, "missing-key", "`template` is missing"),
    ("«»" + TOP + INSTANCE, "missing-key", "`operation` is missing"),
    (
        TOP + "«[operation]»\na = 1" + INSTANCE,
        "missing-key",
        "`kind` is missing in [operation]; known: gemm, batched_gemm, grouped_convolution, ",
    ),
    (gemm('a = { dtype = "f16", layout = "row" }\n', "").replace("[operation]", "«[operation]»"), "missing-key", "`a`"),
    (
        gemm('a = { dtype = "f16", layout', "a = «{ layout").replace('"row" }\nb', '"row" }»\nb'),
        "missing-key",
        "`dtype` is missing in [operation.a]",
    ),
    (KERNEL + "«[[instance]]»\nMPerBlock = 1", "missing-key", "`name` is missing in [[instance]]"),
    (KERNEL + "«[[sweep]]»\nparameters = { MPerBlock = [1] }", "missing-key", "`name` is missing in [[sweep]]"),
    ("«»" + TOP + OPERATION, "no-instance", "the kernel has no instance"),
    (KERNEL + "«[[shape]]»\nM = 1\nN = 1", "missing-key", "`K` is missing in [[shape]]"),
    # types
    ("name = «3»\n" + KERNEL, "wrong-type", "`name` must be a string, not the integer 3"),
    ("flags = [«1»]\n" + KERNEL, "wrong-type", "element 1 of `flags` must be a string"),
    ("archs = «'gfx942'»\n" + KERNEL, "wrong-type", 'must be an array, not the string "gfx942"'),
    ('flags = ["-O2", «"-include"»]\n' + KERNEL, "flag-value", "`-include` needs a value"),
    ("archs = «[]»\n" + KERNEL, "empty-array", "`archs` must not be empty"),
    (TOP + "operation = «3»" + INSTANCE, "wrong-type", "`operation` must be a table"),
    (gemm('a = { dtype = "f16", layout = "row" }', 'a = «"f16"»'), "wrong-type", "`a` must be a table"),
    (gemm('kind = "gemm"', 'kind = "gemm"\nalpha = «"1"»'), "wrong-type", "`alpha` must be a number"),
    (gemm('kind = "gemm"', 'kind = "gemm"\nalpha = «nan»'), "wrong-type", "`alpha` must be a finite number"),
    (gemm('kind = "gemm"', 'kind = "gemm"\nsplit_k = «1»'), "wrong-type", "`split_k` must be true or false"),
    (KERNEL + "[defaults]\nNPerBlock = «1979-05-27»", "wrong-type", "`NPerBlock` must be an integer"),
    (KERNEL + '[defaults]\nLengths = [1, «"2"»]', "wrong-type", "must be an integer"),
    (
        KERNEL + '[defaults]\nKinds = ["F16", «2»]',
        "wrong-type",
        "element 2 of `Kinds` is the integer 2 and must be a string",
    ),
    (KERNEL + "[defaults]\nNested = [[1, 2], «3»]", "wrong-type", "must be an array"),
    (KERNEL + "[defaults]\nDeep = [«[[1]]»]", "wrong-type", "element 1 of `Deep`"),
    (KERNEL + "[defaults]\nNPerBlock = «99999999999999999999»", "out-of-range", "does not fit into 64 bits"),
    (with_shape("M = 1\nN = 1\nK = «1.5»"), "wrong-type", "`K` must be an integer, not the number 1.5"),
    (with_shape("M = 1\nN = 1\nK = «true»"), "wrong-type", "`K` must be an integer, not true"),
    # values
    (gemm('a = { dtype = "f16"', 'a = { dtype = «"fp16"»'), "unknown-dtype", "did you mean `f16`?"),
    (gemm('layout = "col"', 'layout = «"column"»'), "unknown-layout", "unknown layout `column`"),
    (gemm('kind = "gemm"', 'kind = "gemm"\nactivation = «"gleu"»'), "unknown-activation", "did you mean `gelu`?"),
    (gemm('kind = "gemm"', 'kind = «"gem"»'), "unknown-kind", "did you mean `gemm`?"),
    ('archs = ["gfx942", «"gfx9420"»]\n' + KERNEL, "unknown-arch", "did you mean `gfx942`? known: gfx900"),
    ('archs = [«"gfx942:xnak+"»]\n' + KERNEL, "unknown-arch", "it has: :sramecc+ :sramecc-, :xnack+"),
    ('archs = [«"host"»]\n' + KERNEL, "arch-mismatch", "`host` needs a *.cpp.j2 template"),
    (KERNEL.replace('"t.hip.j2"', '«"T.hip.j2"»'), "missing-template", "did you mean `t.hip.j2`? looked in: "),
    (KERNEL.replace('"t.hip.j2"', '«"gemm_universal.hip.j2"»'), "missing-template", "`ck/gemm_universal.hip.j2`?"),
    (KERNEL.replace('"t.hip.j2"', '«"../templates/t.hip.j2"»'), "missing-template", "there is no template"),
    (KERNEL.replace('"t.hip.j2"', f'«"{"t" * 5000}.hip.j2"»'), "missing-template", "there is no template"),
    ('name = «"a/b"»\n' + KERNEL, "invalid-name", "it has a `/`, which separates kernel and instance"),
    ('name = «"a\u202eb"»\n' + KERNEL, "invalid-name", "`a<U+202E>b` is not a name: it holds U+202E"),
    ('name = «"a\\u200Fb"»\n' + KERNEL, "invalid-name", "it holds U+200F"),
    ('name = «"a\u0085b"»\n' + KERNEL, "invalid-name", "it holds U+0085"),
    (KERNEL.replace('"t.hip.j2"', '«"t\u2066.hip.j2"»'), "invalid-name", "holds U+2066"),
    (TOP + OPERATION + INSTANCE.replace('"first"', '«"first\u202e"»'), "invalid-name", "it holds U+202E"),
    (KERNEL + '[[sweep]]\nname = «"s\ufeff"»\nparameters = { MPerBlock = [1] }', "invalid-name", "it holds U+FEFF"),
    (KERNEL + "[defaults]\n«'A\u202e'» = 128", "invalid-name", "`A<U+202E>` cannot be a template parameter"),
    (KERNEL + f"[defaults]\n«{'A' * 1_000_000}» = 128", "invalid-name", "the name has 1000000 characters; at most 120"),
    (f"«{'a' * 1_000_000}» = 128\n" + KERNEL, "unknown-key", f"unknown key `{'a' * 199}…"),
    (with_shape("M = «0»\nN = 1\nK = 1"), "out-of-range", "`M` must be at least 1"),
    (with_shape("M = 1\nN = «-1»\nK = 1"), "out-of-range", "`N` must be at least 1"),
    (with_shape("M = 1\nN = 1\nK = «2147483648»"), "out-of-range", "does not fit into int32_t"),
    (with_shape("M = 1\nN = 1\nK = 1\nkBatch = «0»"), "out-of-range", "`kBatch` must be at least 1"),
    (with_shape("M = 4\nN = 4\nK = 4\nLDA = «3»"), "out-of-range", "`LDA` must be at least 4: X is M × K"),
    # the operation as a whole
    (gemm('b = { dtype = "f16", layout = "col" }', 'b = { same_as = «"x"» }'), "unknown-tensor", "known: a"),
    (gemm('b = { dtype = "f16", layout = "col" }', 'b = { same_as = «"b"» }'), "unknown-tensor", "same as itself"),
    (gemm('b = { dtype = "f16"', 'b = { same_as = "a", dtype = «"f32"»'), "dtype-mismatch", "whose dtype is f16"),
    (gemm('kind = "gemm"', 'kind = "gemm"\n«scale_a» = { per = "row" }'), "inconsistent-scale", "needs `scale_b`"),
    (
        gemm('kind = "gemm"', 'kind = "gemm"\nscale_a = { per = "row" }\nscale_b = { per = «"tensor"» }'),
        "inconsistent-scale",
        'that of scale_a "row"',
    ),
    (gemm('kind = "gemm"', 'kind = "gemm"\ninput_reorder = «[0, 1]»'), "invalid-order", "each of 0 to 4 once"),
    (
        gemm('b = { dtype = "f16", layout = "col" }', 'b = { same_as = "a", layout = "col" }')
        + "«[[shape]]»\nM = 4\nN = 8\nK = 4",
        "shape-mismatch",
        "W is the same buffer as X, but needs 32 elements",
    ),
    # custom operations
    (custom('sizes = ["N"]').replace("[operation]", "«[operation]»"), "missing-key", "`output` is missing"),
    (custom('sizes = ["N", «"N"»]\n' + OUTPUT), "duplicate-argument", "two arguments are called `N`"),
    (custom('sizes = ["N"]\nruntime = { alpha = «"flaot"» }\n' + OUTPUT), "unknown-runtime-type", "`float`?"),
    (custom('sizes = ["M"]\n' + OUTPUT.replace('"N"', '«"N"»')), "unknown-size", "unknown size `N`"),
    (custom('sizes = ["N"]\n' + OUTPUT.replace('"N"', '«"N("»')), "invalid-size", "`N(` is not a size"),
    (custom('sizes = ["N"]\n' + OUTPUT + "strides = «[1, 2]»\n"), "dimension-mismatch", "2 strides for 1 sizes"),
    (
        custom('sizes = ["N"]\nruntime = { alpha = "float" }\n' + OUTPUT) + "«[[shape]]»\nN = 1",
        "missing-key",
        "runtime argument `alpha` is missing",
    ),
    (
        custom('sizes = ["N"]\nruntime = { steps = "int32_t" }\n' + OUTPUT) + "[[shape]]\nN = 1\nsteps = «1.5»",
        "wrong-type",
        "`steps` is of type int32_t; the number 1.5 is not",
    ),
    # instances together
    (
        KERNEL + '[[instance]]\nname = «"first"»\nMPerBlock = 1',
        "duplicate-instance",
        "two instances are called `first`",
    ),
    (with_shape('name="a"\nM=1\nN=1\nK=1\n[[shape]]\nname=«"a"»\nM=1\nN=1\nK=1'), "duplicate-shape", "two shapes"),
    # sweeps
    (
        KERNEL + '[[sweep]]\nname = "s"\nbase = «"frist"»\nparameters = { MPerBlock = [1] }',
        "unknown-instance",
        "did you mean `first`?",
    ),
    (
        KERNEL + '[[sweep]]\nname = "s"\nparameters = { MPerBlock = [1, «{ }»] }',
        "wrong-type",
        "`MPerBlock` must be",
    ),
    (KERNEL + '[[sweep]]\nname = "s"\nparameters = «{}»', "empty-array", "`parameters` must not be empty"),
]

WARNINGS = [
    (
        KERNEL + '[[instance]]\nname = «"second"»\nMPerBlock = 128',
        "duplicate-parameters",
        "`second` has the same parameters as `first`: they are compiled once",
    ),
    (
        KERNEL + '[[sweep]]\nname = «"s"»\nparameters = { MPerBlock = [64, 128] }',
        "duplicate-parameters",
        "1 of 2 instances of sweep `s` have the same parameters as others and are compiled once: `s_128` equals `first`",
    ),
    (
        KERNEL + '[[instance]]\nname = "second"\nMPerBlock = 1\n[[instance]]\nname = "third"\nMPerBlock = «"1"»',
        "mixed-types",
        "`MPerBlock` is a string here and an integer elsewhere",
    ),
    (KERNEL + '[[sweep]]\nname = "s"\nparameters = { MPerBlock = «[]» }', "empty-sweep", "yields nothing"),
    (
        KERNEL + '[[sweep]]\nname = «"s"»\nwhere = "MPerBlock > 2"\nparameters = { MPerBlock = [1, 2] }',
        "empty-sweep",
        "no combination meets its conditions",
    ),
    (
        KERNEL + '[[sweep]]\nname = "s"\nparameters = { MPerBlock = [1, 2, «1»] }',
        "duplicate-value",
        "`MPerBlock` has this value twice",
    ),
]


def check(root: Path, marked: str, code: str, message: str, severity: str) -> None:
    path = str(root / "k.kernel.toml")
    text, expected = unmarked(marked, path)
    found = workspace(root, {"k.kernel.toml": text}).diagnostics
    assert [(one.code, str(one.severity)) for one in found] == [(f"kernel-file/{code}", severity)], found
    assert message in found[0].message
    assert found[0].span == expected, str(found[0].span)


@pytest.mark.parametrize(("text", "code", "message"), ROWS)
def test_error(tmp_path: Path, text: str, code: str, message: str) -> None:
    check(tmp_path, text, code, message, "error")


@pytest.mark.parametrize(("text", "code", "message"), WARNINGS)
def test_warning(tmp_path: Path, text: str, code: str, message: str) -> None:
    check(tmp_path, text, code, message, "warning")


def test_a_valid_file_has_no_messages(tmp_path: Path) -> None:
    assert workspace(tmp_path, {"k.kernel.toml": KERNEL}).diagnostics == ()


def test_all_mistakes_at_once(tmp_path: Path) -> None:
    text = """template = "nowhere.hip.j2"
archs = ["gfx1"]
[operation]
kind = "gemm"
a = { dtype = "fp16", layout = "rwo" }
b = { dtype = "f16" }
c = { }
[[shape]]
M = 0
[[instance]]
name = "one"
MPerBlock = {}
[[instance]]
name = "one"
[[sweep]]
name = "s"
where = ["MPerBlok > 1", "MPerBlock ="]
parameters = { MPerBlock = [1979-05-27] }
"""
    found = workspace(tmp_path, {"k.kernel.toml": text})
    assert found.kernels == ()
    assert [(one.code.removeprefix("kernel-file/"), one.span.start.line + 1) for one in found.diagnostics] == [
        ("missing-template", 1),
        ("unknown-arch", 2),
        ("unknown-dtype", 5),
        ("unknown-layout", 5),
        ("missing-key", 7),
        ("missing-key", 8),
        ("missing-key", 8),
        ("out-of-range", 9),
        ("wrong-type", 12),
        ("duplicate-instance", 14),
        ("unknown-parameter", 17),
        ("invalid-condition", 17),
        ("wrong-type", 18),
    ]


@pytest.mark.parametrize(
    "other",
    [
        ('kind = "gemm"', 'kind = "gemmm"'),
        ('dtype = "f16"', 'dtype = "f61"'),
        ("MPerBlock = 128", "MPerBlock = 2026-01-01"),
        ('template = "t.hip.j2"', 'template = "u.hip.j2"'),
        ("M = 1\n", "M = 0\n"),
        ("M = 1\n", "kBatch = 0\nM = 1\n"),
    ],
)
def test_no_mistake_hides_that_of_a_shape(tmp_path: Path, other: tuple[str, str]) -> None:
    text = with_shape("M = 1\nN = true\nK = 1\n")
    assert other[0] in text
    found = workspace(tmp_path, {"k.kernel.toml": text.replace(*other, 1)}).diagnostics
    errors = [one.message for one in found if one.severity is Severity.ERROR]
    assert "`N` must be an integer, not true" in errors
    assert len(errors) == 2, errors


def test_a_size_of_its_own_operation_is_checked_beside_mistakes_in_it(tmp_path: Path) -> None:
    tensors = '[[operation.output]]\nname = "Y"\ndtype = "f23"\nsizes = ["Rows"]\n'
    operation = f'template = "t.hip.j2"\n[operation]\nkind = "custom"\nsizes = ["Rows"]\n{tensors}'
    text = operation + "[[shape]]\nRows = true\n" + INSTANCE
    found = [one.message for one in workspace(tmp_path, {"k.kernel.toml": text}).diagnostics]
    assert any("unknown dtype `f23`" in one for one in found), found
    assert any("`Rows` must be an integer, not true" in one for one in found), found


def test_what_is_valid_is_kept(tmp_path: Path) -> None:
    """A bad instance or shape is left out; the kernel and its other instances stay."""
    text = KERNEL + '[[instance]]\nname = "second"\nMPerBlock = {}\n[[shape]]\nM = 1\n[[shape]]\nM = 1\nN = 2\nK = 3\n'
    found = workspace(tmp_path, {"k.kernel.toml": text})
    assert [instance.name for instance in found.kernels[0].instances] == ["first"]
    assert [shape.name for shape in found.kernels[0].shapes] == ["1x2x3"]
    assert len(found.diagnostics) == 3


def test_kernel_files_share_what_they_say_alike(tmp_path: Path) -> None:
    names = {"same": "Alike = 1", "also": "Alike = 1", "other": "Alike = true"}
    files = {f"{name}.kernel.toml": f"{KERNEL}{line}\n" for name, line in names.items()}
    kernels = {one.name: one for one in workspace(tmp_path, files).kernels}
    assert len({id(one.operation) for one in kernels.values()}) == 1
    parameters = {name: one.instances[0].parameters for name, one in kernels.items()}
    assert parameters["same"] is parameters["also"]
    assert parameters["other"]["Alike"] is True


def test_arrays_hold_integers_strings_or_arrays_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = (
        KERNEL
        + 'Kinds = ["F16", "F32"]\nNested = [[1, 2], []]\nNames = [["a"]]\nEmpty = []\n[defaults]\nb = 1\na = 2\n'
    )
    found = workspace(tmp_path, {"k.kernel.toml": text})
    assert found.diagnostics == ()
    assert list(found.kernels[0].instances[0].parameters.items()) == [
        *(("b", 1), ("a", 2), ("MPerBlock", 128)),
        *(("Kinds", ("F16", "F32")), ("Nested", ((1, 2), ())), ("Names", (("a",),)), ("Empty", ())),
    ]


def test_the_order_of_three_inputs_of_a_gemm_stands_for_that_of_five(tmp_path: Path) -> None:
    text = gemm('kind = "gemm"', 'kind = "gemm"\ninput_reorder = [2, 0, 1]')
    (kernel,) = workspace(tmp_path, {"k.kernel.toml": text}).kernels
    assert kernel.operation.settings["input_reorder"] == (4, 0, 1, 2, 3)


def test_a_name_given_twice_shows_both_places(tmp_path: Path) -> None:
    text = KERNEL + '[[instance]]\nname = "first"\nMPerBlock = 1\n'
    (found,) = workspace(tmp_path, {"k.kernel.toml": text}).diagnostics
    (related,) = found.related
    assert related.span is not None
    assert (str(related.span.start), str(found.span.start)) == ("10:8", "13:8")


@pytest.mark.parametrize("stem", ["a@b", ".a", "-a", " a"])
def test_a_file_whose_name_cannot_be_that_of_a_kernel(tmp_path: Path, stem: str) -> None:
    (found,) = workspace(tmp_path, {f"{stem}.kernel.toml": KERNEL}).diagnostics
    assert found.code == "kernel-file/invalid-name"
    assert f"`{stem}` is not a name" in found.message
    assert "rename" in found.message
    named = 'name = "good"\n' + KERNEL
    assert not workspace(tmp_path, {f"{stem}.kernel.toml": named}).diagnostics


def test_two_files_with_one_name(tmp_path: Path) -> None:
    found = workspace(tmp_path, {"a.kernel.toml": 'name = "b"\n' + KERNEL, "b.kernel.toml": KERNEL})
    (diagnostic,) = found.diagnostics
    assert diagnostic.code == "kernel-file/duplicate-kernel"
    assert diagnostic.span == whole_file(str(tmp_path / "b.kernel.toml"))
    assert [str(related.span) for related in diagnostic.related] == [f"{tmp_path / 'a.kernel.toml'}:1:8"]
    assert [kernel.path for kernel in found.kernels] == [str(tmp_path / "a.kernel.toml")]


SWEEP = KERNEL + '[[sweep]]\nname = "s"\nbase = "frist"\nparameters = { MPerBlock = [1] }'
CONDITION = KERNEL + '[[sweep]]\nname = "s"\nbase = "first"\nparameters = { MPerBlock = [1] }\nwhere = ["MPerBlok < 9"]'


@pytest.mark.parametrize(
    ("text", "replaced", "by"),
    [
        (gemm('a = { dtype = "f16"', 'a = { dtype = "fp16"'), '"fp16"', '"f16"'),
        (gemm('kind = "gemm"', 'kind = "gem"'), '"gem"', '"gemm"'),
        (gemm('b = { dtype = "f16", layout = "col" }', 'b = { same_as = "A" }'), '"A"', '"a"'),
        (SWEEP, '"frist"', '"first"'),
        (CONDITION, "MPerBlok", "MPerBlock"),
    ],
)
def test_fixes_replace_the_place(tmp_path: Path, text: str, replaced: str, by: str) -> None:
    (found,) = workspace(tmp_path, {"k.kernel.toml": text}).diagnostics
    (fix,) = found.fixes
    assert fix.span == found.span
    line = text.split("\n")[fix.span.start.line]
    assert (line[fix.span.start.column : fix.span.end.column], fix.text) == (replaced, by)


SLIPS = [
    # template, parameters of the one instance; the key that is underlined and its fix, or "" and the template's matter
    ("{{ GemmSpec }}{{ GemmSpec }}", {"GemSpec": "x"}, "GemSpec", "GemmSpec"),
    ("{{ GemmSpec }}", {"GemSpec": "x"}, "GemSpec", "GemmSpec"),
    ("{% if false %}{{ GemmSpec }}{% endif %}", {"GemSpec": "x"}, "GemSpec", "GemmSpec"),
    ("{{ MPerBlock }} {{ MPerXDL }}", {"MPrBlock": 1, "MPerXDl": 1}, "MPrBlock MPerXDl", "MPerBlock MPerXDL"),
    # the template's own slip: it prints the name elsewhere
    ("/* GemmSpec */ {{ GemSpec }}", {"GemmSpec": "x"}, "", ""),
    # nothing is known of what it reads
    ("{{ GemmSpec }}{% include arch %}", {"GemSpec": "x"}, "", ""),
    ("{{ GemmSpec }}{% for name in parameters %}{% endfor %}", {"GemSpec": "x"}, "", ""),
    # another name, and one whose neighbour is given
    ("{{ GemmSpec }}", {"Wave": 1}, "", ""),
    ("{{ MPerBlock }}", {"MPerBlock": 1, "NPerBlock": 1}, "", ""),
]


@pytest.mark.parametrize(("template", "parameters", "keys", "fixes"), SLIPS, ids=[row[0] for row in SLIPS])
def test_a_misspelt_parameter_is_an_error_at_its_key(
    template: str, parameters: dict[str, ParameterValue], keys: str, fixes: str, tmp_path: Path
) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates/s.hip.j2").write_text(template)
    text = gemm_kernel("s.hip.j2", {"first": parameters})
    found = [one for one in workspace(tmp_path, {"k.kernel.toml": text}).errors if "parameter" in one.code]
    lines = text.splitlines()
    assert [lines[one.span.start.line][one.span.start.column : one.span.end.column] for one in found] == keys.split()
    assert [fix.text for one in found for fix in one.fixes] == fixes.split()
    assert all("did you mean" in one.message for one in found)


def test_a_template_that_is_a_broken_link_is_called_one(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates/own.hip.j2").symlink_to("gone.j2")
    template = re.search(r'template = "(.*)"', KERNEL)
    assert template is not None
    for name, message in (
        ("own.hip.j2", "`own.hip.j2` is a link to gone.j2, which does not exist"),
        ("onw.hip.j2", "there is no template `onw.hip.j2`; "),
    ):
        errors = workspace(tmp_path, {"k.kernel.toml": KERNEL.replace(template[1], name)}).errors
        (found,) = [one for one in errors if one.code == "kernel-file/missing-template"]
        assert found.message.startswith(message)
        assert "did you mean `own" not in found.message


def test_the_work_for_unknown_keys_grows_with_their_number_only(tmp_path: Path) -> None:
    def calls(count: int) -> int:
        profile = cProfile.Profile()
        text = "".join(f"unknown_key_{number} = 1\n" for number in range(count))
        profile.enable()
        found = workspace(tmp_path, {"k.kernel.toml": text}).errors
        profile.disable()
        assert len(found) > count
        return sum(one.callcount for one in profile.getstats())

    calls(10)
    assert calls(800) < 6 * calls(200)
