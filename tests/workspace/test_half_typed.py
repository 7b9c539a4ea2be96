"""Files that are being typed: what is broken stays as it was last read, and is marked alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ckwatch.model.kernels import Kernel
from ckwatch.workspace.loading import Workspace
from ckwatch.workspace.reloading import WorkspaceLoader
from helpers.workspaces import OPERATION, TEMPLATE, TOP, unmarked, workspace

FILE = (
    TOP
    + OPERATION
    + """
[defaults]
Fast = true

[[shape]]
name = "square"
M = 64
N = 64
K = 64

[[instance]]
name = "one"
MPerBlock = 128
NPerBlock = 64

[[instance]]
name = "two"
MPerBlock = 256
NPerBlock = 32

[[sweep]]
name = "many"
[sweep.parameters]
NPerBlock = [16, 48]

[[instance]]
name = "three"
MPerBlock = 32
NPerBlock = 8
"""
)
ALL = {"one": 64, "two": 32, "three": 8, "many_16": 16, "many_48": 48}


class Desk:
    """A workspace with `FILE` that was read by a client, whose unsaved texts are read next."""

    def __init__(self, root: Path, files: Mapping[str, str] | None = None) -> None:
        workspace(root, {"k.kernel.toml": FILE, "templates/t.hip.j2": TEMPLATE, **(files or {})})
        self.root = root
        self._loader = WorkspaceLoader(root)
        self.saved = self._loader.load(scope="")

    def read(self, text: str, name: str = "k.kernel.toml", scope: str = "editor") -> Workspace:
        return self._loader.load({str(self.root / name): text}, scope=scope)


def n_per_block(found: Workspace) -> dict[str, object]:
    return {one.name: one.parameters["NPerBlock"] for kernel in found.kernels for one in kernel.instances}


def shown(found: Workspace) -> list[tuple[str, object]]:
    return [(one.message, (one.span.start, one.span.end)) for one in found.diagnostics]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("NPerBlock = 32", "NPerBlock = «»", "the value is missing"),
        ("NPerBlock = 32", 'NPerBlock = «"32»', "the string is not closed on this line"),
        ("NPerBlock = 32", "NPerBlock = «[32»", "the array is not closed: `]` is missing"),
        ("NPerBlock = 32", 'NPerBlock = «"""32»', "the string is not closed"),
        ("NPerBlock = 32", "NPerBlock«»", "expected '=' after a key in a key/value pair"),
        ("NPerBlock = 32", "NPer«»\nNPerBlock = 32", "expected '=' after a key in a key/value pair"),
        ("NPerBlock = 32", "NPerBlock = 32\n«NPerBlock» = 4", "`NPerBlock` is given twice"),
        ("NPerBlock = 32", "NPerBlock = «{}»", None),
        ('name = "two"', "name = «»", "the value is missing"),
        ('name = "two"', 'name = «"tw»', "the string is not closed on this line"),
        ('name = "two"\n', "", None),
        (
            '[[instance]]\nname = "two"',
            '[[instance«»\nname = "two"',
            "expected ']]' at the end of an array declaration",
        ),
        ('[[instance]]\nname = "two"', '«[instance]»\nname = "two"', "write [[instance]]: there may be several"),
        ('[[instance]]\nname = "two"', '[[inst]]\nname = "two"', None),
        ("NPerBlock = 32\n", "NPerBlock = 32\n\n[[«»\n", "invalid initial character for a key part"),
        ("NPerBlock = 32\n", "\n[[inst«»\nNPerBlock = 32\n", "expected ']]' at the end of an array declaration"),
        ("NPerBlock = 32\n", 'NPerBlock = 32\n[[instance]]\nname = "new"\nNPerBlock =«»\n', "the value is missing"),
        ("NPerBlock = [16, 48]", "NPerBlock = «[16, 48»", "the array is not closed: `]` is missing"),
        ("[sweep.parameters]", "[sweep.param«»", "expected ']' at the end of a table declaration"),
        ("M = 64", "M =«»", "the value is missing"),
        ("Fast = true", "Fast = «tru»", "`tru` is not a TOML value; a string needs quotes"),
        ("[defaults]", "[defau«»", "expected ']' at the end of a table declaration"),
        ("[operation]", "[operation«»", "expected ']' at the end of a table declaration"),
        ('kind = "gemm"', 'kind = «"gem»', "the string is not closed on this line"),
        ('kind = "gemm"', 'kind = «"gem"»', None),
        ('template = "t.hip.j2"', 'template = «"t.hi»', "the string is not closed on this line"),
        ('template = "t.hip.j2"', 'template = «"t.hip"»', None),
    ],
)
def test_a_broken_table_stays_and_is_marked_alone(desk: Desk, old: str, new: str, message: str | None) -> None:
    assert old in FILE
    text, place = unmarked(FILE.replace(old, new, 1), str(desk.root / "k.kernel.toml"))
    found = desk.read(text)
    assert n_per_block(found) == ALL
    assert [kernel.operation for kernel in found.kernels] == [kernel.operation for kernel in desk.saved.kernels]
    assert [kernel.shapes[0].sizes for kernel in found.kernels] == [desk.saved.kernels[0].shapes[0].sizes]
    if message is not None:
        assert place is not None
        assert shown(found) == [(message, (place.start, place.end))]
    else:
        assert len(found.errors) == 1


def test_other_tables_are_read_as_they_stand(desk: Desk) -> None:
    text = FILE.replace("NPerBlock = 32", "NPerBlock = ").replace("NPerBlock = 8", "NPerBlock = 4")
    assert n_per_block(desk.read(text)) == {**ALL, "three": 4}


def test_the_last_good_text_is_the_one_that_was_typed_last(desk: Desk) -> None:
    desk.read(FILE.replace("NPerBlock = 32", "NPerBlock = 2"))
    assert n_per_block(desk.read(FILE.replace("NPerBlock = 32", "NPerBlock ="))) == {**ALL, "two": 2}
    # what another client sees is of the file
    assert n_per_block(desk.read(FILE.replace("NPerBlock = 32", "NPerBlock ="), scope="other")) == ALL
    assert n_per_block(desk.read(FILE.replace("NPerBlock = 32", "NPerBlock = 5"))) == {**ALL, "two": 5}


def test_a_deleted_table_is_gone_also_while_another_one_is_broken(desk: Desk) -> None:
    broken = FILE.replace("NPerBlock = 32", "NPerBlock = ")
    desk.read(broken)
    without = broken.replace('[[instance]]\nname = "three"\nMPerBlock = 32\nNPerBlock = 8\n', "")
    del (expected := dict(ALL))["three"]
    assert n_per_block(desk.read(without)) == expected
    # and does not come back with the broken one
    del expected["two"]
    assert (
        n_per_block(desk.read(without.replace('[[instance]]\nname = "two"\nMPerBlock = 256\nNPerBlock = \n', "")))
        == expected
    )


def test_a_table_that_was_never_whole_is_left_out_alone(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"k.kernel.toml": FILE.replace("NPerBlock = 32", "NPerBlock = ")})
    del (expected := dict(ALL))["two"]
    assert n_per_block(desk.saved) == expected
    assert [one.message for one in desk.saved.diagnostics] == ["the value is missing"]


def test_places_are_those_of_the_text(desk: Desk) -> None:
    text = "# above\n" + FILE.replace("NPerBlock = 32", "NPerBlock = ")
    kernel: Kernel = desk.read(text).kernels[0]
    lines = text.split("\n")
    for instance in kernel.instances:
        named = instance.name.partition("_")[0]
        assert named in lines[instance.span.start.line]
        for name, span in instance.spans.items():
            assert name in lines[span.start.line]
    assert "NPerBlock = " in lines[kernel.instances[1].spans["NPerBlock"].start.line]


def test_an_equal_text_gives_the_same_kernel(desk: Desk) -> None:
    text = FILE.replace("NPerBlock = 32", "NPerBlock = ")
    assert desk.read(text).kernels[0] is desk.read(text).kernels[0]
    first = desk.saved.kernels[0]
    read = desk.read(FILE).kernels[0]
    assert read is first


WORKSPACE = """
[workspace]
archs = ["gfx90a"]

[compile]
flags = ["-DA"]
nice = 5
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('archs = ["gfx90a"]', "archs = "),
        ('archs = ["gfx90a"]', 'archs = ["gfx90a'),
        ('archs = ["gfx90a"]', 'archs = ["gfx9"]'),
        ('archs = ["gfx90a"]', "archs = []"),
        ("[workspace]", "[workspace"),
        ("[workspace]", "[worksp]"),
        ('flags = ["-DA"]', 'flags = ["-D'),
        ('flags = ["-DA"]', "flags = 1"),
        ("nice = 5", "ni"),
        ("nice = 5", "nice = 5\nnice = 6"),
        ("nice = 5", "nice = 50"),
        ("[compile]", "[comp"),
    ],
)
def test_settings_that_are_being_typed_stay_in_effect(tmp_path: Path, old: str, new: str) -> None:
    desk = Desk(tmp_path, {"ckwatch.toml": WORKSPACE})
    found = desk.read(WORKSPACE.replace(old, new), "ckwatch.toml")
    assert found.settings.workspace.archs == ["gfx90a"]
    assert (found.settings.compile.flags, found.settings.compile.nice) == (["-DA"], 5)
    assert len(found.errors) == 1
    assert found.kernels[0].archs == ("gfx90a",)
    other = desk.read(WORKSPACE.replace("nice = 5", ""), "ckwatch.toml")
    assert (other.settings.compile.nice, other.errors) == (10, ())


@pytest.mark.parametrize("old", ["Fast = true", 'kind = "gemm"', 'template = "t.hip.j2"'])
def test_without_what_others_rest_on_nothing_is_read(tmp_path: Path, old: str) -> None:
    desk = Desk(tmp_path, {"k.kernel.toml": FILE.replace(old, f"{old.partition(' ')[0]} = ")})
    assert desk.saved.kernels == ()
    assert [one.message for one in desk.saved.diagnostics] == ["the value is missing"]
