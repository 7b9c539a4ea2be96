"""Kept renders: found while nothing they read has changed, unpacked to the same map."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from ckwatch.model.kernels import Unit
from ckwatch.render.cache import RenderCache, prune
from ckwatch.render.outcome import PackedSourceMap, packed_bytes
from ckwatch.render.renderer import Renderer
from helpers.units import unit

Edit = Callable[[Path], object]


def digest(path: str) -> str | None:
    file = Path(path)
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None


def workspace(folder: Path) -> tuple[Renderer, RenderCache, Unit]:
    first, second = folder / "first", folder / "second"
    first.mkdir()
    second.mkdir()
    (first / "a.hip.j2").write_text("{% include 'b.j2' %}{% for i in [1, 2] %}{{ i + Tile }};\n{% endfor %}")
    (second / "b.j2").write_text("int b;\n")
    folders = (first, second)
    return Renderer(folders), RenderCache(folder / "cache", folders, digest), unit("a.hip.j2", Tile=7)


def test_a_kept_render_is_the_same(tmp_path: Path) -> None:
    renderer, cache, subject = workspace(tmp_path)
    outcome = renderer.render(subject)
    cache.put(subject, outcome)
    found = cache.get(subject)
    assert found is not None
    assert found.rendered is not None
    assert outcome.rendered is not None
    assert found.rendered.text == outcome.rendered.text
    assert found.rendered.source_map.segments == outcome.rendered.source_map.segments
    assert found.rendered.source_map.frames == outcome.rendered.source_map.frames
    assert (found.read, found.missed) == (outcome.read, outcome.missed)


EDITS: list[tuple[str, Edit, bool]] = [
    ("nothing", lambda _folder: None, True),
    ("the same text again", lambda folder: (folder / "second/b.j2").write_text("int b;\n"), True),
    ("another text", lambda folder: (folder / "second/b.j2").write_text("int c;\n"), False),
    ("a file gone", lambda folder: (folder / "second/b.j2").unlink(), False),
    ("a file that would be read instead", lambda folder: (folder / "first/b.j2").write_text(""), False),
    ("an unrelated file", lambda folder: (folder / "first/c.j2").write_text(""), True),
    ("a damaged entry", lambda folder: next((folder / "cache").iterdir()).write_bytes(b"\x80garbage"), False),
]


@pytest.mark.parametrize(("edit", "holds"), [row[1:] for row in EDITS], ids=[row[0] for row in EDITS])
def test_it_holds_until_something_it_read_changes(tmp_path: Path, edit: Edit, holds: bool) -> None:
    renderer, cache, subject = workspace(tmp_path)
    cache.put(subject, renderer.render(subject))
    edit(tmp_path)
    assert (cache.get(subject) is not None) is holds


class ExecutedError(Exception):
    """Reading an entry has run code."""


def _raise() -> None:
    raise ExecutedError


class Trap:
    """Return what pickle would execute on reading this back."""

    def __reduce__(self) -> tuple[object, ...]:
        return (_raise, ())


def sealed(body: bytes) -> bytes:
    return hashlib.sha256(body).digest() + body


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(pickle.dumps(Trap()), id="a pickle"),
        pytest.param(sealed(pickle.dumps(Trap())), id="a pickle in an entry's form"),
        pytest.param(sealed(packed_bytes(["text", "no map", "s", "k", [], {}, []])), id="other types"),
        pytest.param(sealed(packed_bytes({"text": 1})), id="another shape"),
        pytest.param(sealed(b"\xc1"), id="no MessagePack"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_what_others_put_there_is_never_executed(tmp_path: Path, content: bytes) -> None:
    """The store may be any folder that the workspace names."""
    renderer, cache, subject = workspace(tmp_path)
    cache.put(subject, renderer.render(subject))
    next((tmp_path / "cache").iterdir()).write_bytes(content)
    assert cache.get(subject) is None


def test_other_parameters_and_mistakes_are_no_hits(tmp_path: Path) -> None:
    renderer, cache, subject = workspace(tmp_path)
    cache.put(subject, renderer.render(subject))
    assert cache.get(unit("a.hip.j2", Tile=8)) is None
    assert cache.get(unit("a.hip.j2", arch="gfx950", Tile=7)) is None
    wrong = unit("a.hip.j2")
    cache.put(wrong, renderer.render(wrong))
    assert cache.get(wrong) is None


def test_packing_loses_nothing(tmp_path: Path) -> None:
    renderer, _, subject = workspace(tmp_path)
    rendered = renderer.render(subject).rendered
    assert rendered is not None
    source_map = rendered.source_map
    assert isinstance(source_map, PackedSourceMap)
    again = PackedSourceMap(rendered.text, source_map.packed)
    at = rendered.text.index("9")
    assert again.origin_of_range(at, at + 1) == source_map.origin_of_range(at, at + 1)
    assert (again.segments, again.frames) == (source_map.segments, source_map.frames)
    copy = pickle.loads(pickle.dumps(source_map))
    assert copy.segments == source_map.segments


def test_pruning_keeps_the_newest(tmp_path: Path) -> None:
    renderer, cache, _ = workspace(tmp_path)
    for tile in range(4):
        subject = unit("a.hip.j2", Tile=tile)
        cache.put(subject, renderer.render(subject))
    prune(tmp_path / "cache", max(file.stat().st_size for file in (tmp_path / "cache").iterdir()))
    assert len(list((tmp_path / "cache").iterdir())) == 1
