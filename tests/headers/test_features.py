"""Features that headers have or lack, and the sentence that says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.headers.declarations import HeaderText
from ckwatch.headers.features import FEATURES, lacking_arch, lacking_parameters
from ckwatch.headers.searched_headers import SearchedHeaders, searched_headers

PROBLEM = FEATURES["gemm-tails"].header
OLD = (
    "template <class A, bool HasHotLoop_ = true, TailNumber TailNum_ = TailNumber::Full,\n class AElementWise_ = int>\n"
)


def made(folder: Path, **headers: str) -> SearchedHeaders:
    for name, text in {"ck_tile/core.hpp": "", **headers}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return SearchedHeaders((str(folder),))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("template <class A, int B_ = 3> struct Name { };", ("A", "B_")),
        (
            "template <class A>\nclass Other; template <class A = std::pair<B, 1>, class... Ts> class Name : C {",
            ("A", "Ts"),
        ),
        ("template <class> struct Name; template <class A> struct Name {};", ("A",)),
        ("template <class A> struct Name {}; template <> struct Name<int> {};", ("A",)),
        ("struct Name {};", ()),
        ("// template <class A> struct Name {};\nstruct Names {};", None),
        ('const char* text = "struct Name {}";', None),
    ],
)
def test_the_parameters_of_a_class_template(text: str, expected: tuple[str, ...] | None) -> None:
    assert HeaderText(text).parameters("Name") == expected


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        (f"{OLD}struct UniversalGemmPipelineProblem {{}};", ""),
        (
            "template <class A, class AElementWise_> struct UniversalGemmPipelineProblem {};",
            "`UniversalGemmPipelineProblem` of {header} in {folder} takes no `HasHotLoop`",
        ),
        (
            "template <int TailNum_, bool HasHotLoop_> struct UniversalGemmPipelineProblem {};",
            "`UniversalGemmPipelineProblem` of {header} in {folder} takes in another order its parameter `TailNum`",
        ),
        ("struct Other {};", "{header} in {folder} declares no `UniversalGemmPipelineProblem`"),
        (None, "Composable Kernel in {folder} has no {header}"),
    ],
)
def test_a_feature(text: str | None, lacking: str, tmp_path: Path) -> None:
    headers = made(tmp_path, **({} if text is None else {PROBLEM: text}))
    answer = headers.feature("gemm-tails")
    assert answer.has == (not lacking)
    expected = lacking.format(header=PROBLEM, folder=tmp_path)
    assert answer.lacking.removesuffix("; it is in Composable Kernel up to that of ROCm 7.13") == expected
    assert (set(headers.read), headers.missed) == (
        ({str(tmp_path / PROBLEM)}, set()) if text is not None else (set(), {str(tmp_path / PROBLEM)})
    )


def test_without_headers_a_feature_is_that_of_the_usual_ones(tmp_path: Path) -> None:
    assert {SearchedHeaders((str(tmp_path),)).feature(name).has for name in FEATURES} == {True}


def test_an_edited_header_is_read_again(tmp_path: Path) -> None:
    headers = made(tmp_path, **{PROBLEM: f"{OLD}struct UniversalGemmPipelineProblem {{}};"})
    assert headers.feature("gemm-tails").has
    before = dict(headers.read)
    made(tmp_path, **{PROBLEM: "template <class AElementWise_> struct UniversalGemmPipelineProblem {};"})
    assert not headers.feature("gemm-tails").has
    assert headers.read.keys() == before.keys()
    assert headers.read != before


def test_folders_of_flags_come_first() -> None:
    flags = ("-O3", "-I/own", "-I", "/other", "-Irelative", "-L/lib")
    assert searched_headers(flags, [Path("/rocm")]).folders == ("/own", "/other", "/rocm")


@pytest.mark.parametrize(
    ("arch", "lacking"),
    [
        ("gfx942:xnack-", ""),
        ("gfx9-4-generic", ""),
        ("gfx1250", "Composable Kernel in /ck knows no gfx1250 (ck/ck.hpp, of gfx12 gfx1200 and gfx1201 alone)"),
        ("gfx1030", "Composable Kernel in /ck knows no gfx1030 (ck/ck.hpp)"),
    ],
)
def test_an_arch(arch: str, lacking: str) -> None:
    known = "gfx942", "gfx9_4_generic", "gfx1200", "gfx1201"
    text = HeaderText("// __gfx1250__\n#if " + " || ".join(f"defined(__{one}__)" for one in known))
    found = lacking_arch(arch, "ck/ck.hpp", text, "/ck")
    assert found.removesuffix("; it is in Composable Kernel of ROCm 10.1") == lacking


def test_spelling_of_parameters_does_not_count() -> None:
    text = HeaderText("template <class A, int MPerBlock, bool DirectLoad_> struct Operation {};")
    assert lacking_parameters("h.hpp", "Operation", ("MPerBlock", "direct_load"), text, "/ck") == ""
