"""Who depends on which file: rows of what was read, what changed, and whom it concerns."""

from __future__ import annotations

import pytest

from ckwatch.core.events import HeaderFacts, UnitKey
from ckwatch.core.graph import DependencyGraph, FileDependents
from helpers.each_row import each_row

A, B, VIEW = UnitKey("", "a"), UnitKey("", "b"), UnitKey("ann", "a")
CK = HeaderFacts("ck", {"/ck.hpp": "1", "/gemm.hpp": "1"}, frozenset({"/first/ck.hpp"}))
OTHER_CK = HeaderFacts("other ck", {"/ck.hpp": "2"}, frozenset())


def graph() -> DependencyGraph:
    """A and B include a macro file, A and its view look for one; A and B were compiled with one set of headers."""
    made = DependencyGraph()
    made.set_reads(A, {"/a.j2": "1", "/m.j2": "1"}, frozenset({"/over/m.j2"}))
    made.set_reads(B, {"/b.j2": "1", "/m.j2": "1"}, frozenset())
    made.set_reads(VIEW, {"/a.j2": "unsaved", "/m.j2": "1"}, frozenset({"/over/m.j2"}))
    made.set_headers(A, CK)
    made.set_headers(B, CK)
    return made


@each_row(
    ("path", "digest", "rerender", "recompile"),
    [
        ("/a.j2", "2", (A, VIEW), ()),
        ("/a.j2", "1", (VIEW,), ()),  # it read another text
        ("/a.j2", "unsaved", (A,), ()),
        ("/a.j2", None, (A, VIEW), ()),
        ("/m.j2", "2", (A, B, VIEW), ()),
        ("/m.j2", "1", (), ()),
        ("/over/m.j2", "1", (A, VIEW), ()),
        ("/over/m.j2", None, (), ()),
        ("/ck.hpp", "2", (), (A, B)),
        ("/ck.hpp", "1", (), ()),
        ("/ck.hpp", None, (), (A, B)),
        ("/first/ck.hpp", "1", (), (A, B)),
        ("/first/ck.hpp", None, (), ()),
        ("/nobody", "1", (), ()),
    ],
)
def test_dependents_of_change(
    path: str, digest: str | None, rerender: tuple[UnitKey, ...], recompile: tuple[UnitKey, ...]
) -> None:
    assert graph().dependents_of_change(path, digest) == FileDependents(rerender, recompile)


def test_headers_of_another_toolchain_concern_it_alone() -> None:
    made = graph()
    theirs = HeaderFacts("ck", {"/theirs/ck.hpp": "1", "/gemm.hpp": "1"})
    made.set_headers(A, theirs, "old")
    made.set_headers(B, theirs, "old")
    assert made.dependents_of_change("/theirs/ck.hpp", "2") == FileDependents((), (), ((A, "old"), (B, "old")))
    assert made.dependents_of_change("/gemm.hpp", "2") == FileDependents((), (A, B), ((A, "old"), (B, "old")))
    assert (made.header_count(A), made.includers("/theirs/ck.hpp")) == (2, set())
    made.remove(A)
    made.set_headers(B, None, "old")
    assert made.dependents_of_change("/gemm.hpp", "2") == FileDependents((), (B,))
    assert "/theirs/ck.hpp" not in made.headers


def test_an_unverified_unit_depends_on_any_change_until_it_is_rendered() -> None:
    made = graph()
    made.mark_unverified(A)
    assert made.dependents_of_change("/m.j2", "1") == FileDependents((A,), ())
    assert made.dependents_of_change("/ck.hpp", "1") == FileDependents((), (A,))
    made.set_reads(A, {"/a.j2": "1"}, frozenset())
    assert made.dependents_of_change("/ck.hpp", "1") == FileDependents((), ())


@pytest.mark.parametrize(
    ("texts", "differs"),
    [
        ({}, False),
        ({"/a.j2": "1"}, False),
        ({"/a.j2": "2"}, True),
        ({"/a.j2": None}, True),
        ({"/over/m.j2": "1"}, True),
        ({"/b.j2": "2"}, False),
    ],
)
def test_an_unsaved_text_makes_a_difference_where_another_was_read(texts: dict[str, str | None], differs: bool) -> None:
    assert graph().differs(A, texts) is differs


def test_a_later_render_replaces_what_was_read() -> None:
    made = graph()
    made.set_reads(A, {"/a.j2": "2", "/new.j2": "1"}, frozenset())
    assert made.reads_of(A) == {"/a.j2": "2", "/new.j2": "1"}
    assert list(made.readers("/m.j2")) == [B, VIEW]
    assert list(made.readers("/over/m.j2")) == [VIEW]
    assert list(made.readers("/new.j2")) == [A]


def test_a_set_of_headers_lives_as_long_as_a_unit_has_it() -> None:
    made = graph()
    made.set_headers(A, OTHER_CK)
    assert made.dependents_of_change("/ck.hpp", "2") == FileDependents((), (B,))
    assert (made.header_count(A), made.header_count(B)) == (1, 2)
    made.set_headers(B, None)
    assert made.headers == ["/ck.hpp"]
    assert made.dependents_of_change("/gemm.hpp", "2") == FileDependents((), ())


def test_a_header_of_two_sets_leaves_with_the_last() -> None:
    known = graph()
    known.set_headers(B, OTHER_CK)
    assert known.dependents_of_change("/ck.hpp", None) == FileDependents((), (A, B))
    assert known.dependents_of_change("/gemm.hpp", None) == FileDependents((), (A,))
    known.set_headers(A, None)
    assert known.headers == ["/ck.hpp"]
    assert known.dependents_of_change("/ck.hpp", None) == FileDependents((), (B,))


def test_nothing_is_left_of_units_that_are_gone() -> None:
    made = graph()
    for key in (A, B, VIEW):
        made.mark_unverified(key)
        made.remove(key)
    assert (made.templates, made.headers, made.known_digests()) == ([], [], ({}, frozenset()))
    assert made.reads_of(A) == {}
    made.remove(A)  # once more does no harm


def test_the_version_grows_when_other_files_are_to_be_watched() -> None:
    made = graph()
    versions = [made.version]

    def grew() -> bool:
        versions.append(made.version)
        return versions[-1] > versions[-2]

    made.set_reads(A, {"/a.j2": "2", "/m.j2": "2"}, frozenset({"/over/m.j2"}))
    assert not grew(), "other contents, the same files"
    made.set_reads(A, {"/a.j2": "2", "/m.j2": "2", "/n.j2": "1"}, frozenset({"/over/m.j2"}))
    assert grew()
    made.set_reads(A, {"/a.j2": "2", "/m.j2": "2"}, frozenset({"/over/m.j2"}))
    assert grew()
    made.set_headers(A, OTHER_CK)
    assert grew()
    made.set_headers(A, CK)
    assert grew()
    made.remove(VIEW)
    assert not grew(), "others read the same"


def test_files_of_which_units_have_read_different_contents_are_disputed() -> None:
    made = graph()
    known, disputed = made.known_digests()
    assert known == {
        "/a.j2": "unsaved",
        "/b.j2": "1",
        "/m.j2": "1",
        "/over/m.j2": None,
        "/ck.hpp": "1",
        "/gemm.hpp": "1",
        "/first/ck.hpp": None,
    }
    assert disputed == {"/a.j2"}
    made.set_headers(B, OTHER_CK)
    assert made.known_digests()[1] == {"/a.j2", "/ck.hpp"}
    known["/a.j2"] = "somebody else's copy"
    assert made.known_digests()[0]["/a.j2"] == "unsaved"
