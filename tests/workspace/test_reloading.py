"""Loading again: the same as loading afresh, and the same objects where nothing changed."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ckwatch.model.diagnostics import Source
from ckwatch.model.errors import CkwatchError
from ckwatch.workspace import reloading, template_search
from ckwatch.workspace.files import FileText, StampCache, read_text
from ckwatch.workspace.loading import Workspace, load_workspace
from ckwatch.workspace.reloading import WorkspaceLoader
from ckwatch.workspace.writers import Writers
from helpers.workspaces import INSTANCE, KERNEL, OPERATION, TEMPLATE, workspace

SECOND_NS = 1_000_000_000

GEMM = "{% include 'tile.j2' %}{{ NPerBlock }}"
FILES = {
    "ckwatch.toml": "",
    "templates/t.hip.j2": TEMPLATE,
    "templates/u.hip.j2": GEMM,
    "templates/tile.j2": "{{ MPerBlock }}",
    "a.kernel.toml": KERNEL,
    "b.kernel.toml": KERNEL.replace("t.hip.j2", "u.hip.j2"),
    "sub/c.kernel.toml": KERNEL.replace("t.hip.j2", "u.hip.j2").replace("128", "mperblock"),
    "sub/d.kernel.toml": KERNEL.replace("t.hip.j2", "x.hip.j2"),
}


def settled() -> int:
    """A clock so late that every file was modified long ago."""
    return time.time_ns() + 3600 * SECOND_NS


def write(root: Path, files: Mapping[str, str | bytes | None]) -> None:
    """Write files, or remove those that are None."""
    for name, content in files.items():
        path = root / name
        if content is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def replaced(before: Workspace, after: Workspace) -> set[str]:
    """The kernels of `after` that are other objects than in `before`."""
    same = {id(kernel) for kernel in before.kernels}
    return {kernel.name for kernel in after.kernels if id(kernel) not in same}


@pytest.mark.parametrize("clock", [time.time_ns, settled])
@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        ({}, set()),
        ({"a.kernel.toml": KERNEL}, set()),
        ({"a.kernel.toml": KERNEL + "# a comment"}, {"a"}),
        ({"a.kernel.toml": None}, set()),
        ({"n.kernel.toml": KERNEL}, {"n"}),
        ({"other/e.txt": "no kernel file"}, set()),
        ({"templates/t.hip.j2": TEMPLATE + "// text that is no tag"}, set()),
        ({"templates/t.hip.j2": TEMPLATE + "{{ AnotherWord }}"}, set()),
        ({"templates/t.hip.j2": "{{ mPerBlock }}"}, set()),  # now a mistake: the kernel has no instance left
        ({"templates/tile.j2": "{{ MPerBlock }}{{ KPerBlock }}"}, set()),
        ({"templates/tile.j2": None}, set()),
        ({"templates/x.hip.j2": TEMPLATE}, {"d"}),
        ({"ckwatch.toml": "[workspace]\narchs = ['gfx950']\n"}, {"a", "b"}),
        ({"ckwatch.toml": "[limits]\ninstances = 7\n"}, {"a", "b"}),
        ({"ckwatch.toml": "[compile]\njobs = 1\n"}, set()),
    ],
)
def test_what_is_replaced(
    tmp_path: Path, edit: Mapping[str, str | None], expected: set[str], clock: Callable[[], int]
) -> None:
    files = FILES | {"sub/c.kernel.toml": KERNEL.replace("t.hip.j2", "y.hip.j2")}
    write(tmp_path, files)
    loader = WorkspaceLoader(tmp_path, clock=clock)
    before = loader.load()
    assert [kernel.name for kernel in before.kernels] == ["a", "b"]
    assert replaced(before, loader.load()) == set()
    write(tmp_path, edit)
    after = loader.load()
    assert replaced(before, after) == expected
    assert after == load_workspace(tmp_path)


def test_a_mistake_that_a_template_makes_and_mends(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    loader = WorkspaceLoader(tmp_path)
    first = loader.load()
    write(tmp_path, {"templates/tile.j2": "{{ M_Per_Block }}"})
    broken = loader.load()
    assert [one.code for one in broken.errors if "b.kernel" in one.span.path] == ["kernel-file/unknown-parameter"]
    assert broken == load_workspace(tmp_path)
    write(tmp_path, {"templates/tile.j2": "{{ MPerBlock }}"})
    assert replaced(first, loader.load()) == set()


def test_a_template_that_comes_first_in_the_search_path(tmp_path: Path) -> None:
    write(tmp_path, FILES | {"ckwatch.toml": "[workspace]\ntemplates = ['first', 'templates']\n", "first/x": ""})
    loader = WorkspaceLoader(tmp_path)
    before = loader.load()
    write(tmp_path, {"first/t.hip.j2": "{{ Mperblock }}"})
    after = loader.load()
    assert "a" not in {kernel.name for kernel in after.kernels}
    assert (after, before) == (load_workspace(tmp_path), before)


def test_the_nearest_name_of_a_missing_template(tmp_path: Path) -> None:
    write(
        tmp_path, {"ckwatch.toml": "", "k.kernel.toml": KERNEL.replace("t.hip.j2", "qwertz.hip.j2"), "templates/x": ""}
    )
    loader = WorkspaceLoader(tmp_path)
    assert "did you mean" not in loader.load().diagnostics[0].message
    write(tmp_path, {"templates/qwerty.hip.j2": "{{ MPerBlock }}"})
    assert "did you mean `qwerty.hip.j2`?" in loader.load().diagnostics[0].message
    assert loader.load() == load_workspace(tmp_path)


@pytest.mark.parametrize(("clock", "expected"), [(time.time_ns, 4), (settled, 0)])
def test_files_modified_just_now_are_read_again(
    tmp_path: Path, clock: Callable[[], int], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, FILES)
    loader = WorkspaceLoader(tmp_path, clock=clock)
    loader.load()
    read: list[str] = []

    def counted(path: str, source: Source, writers: Writers | None) -> FileText:
        read.append(path)
        return read_text(path, source, writers)

    monkeypatch.setattr(reloading, "read_text", counted)
    loader.load()
    assert len(read) == expected


def test_a_stamp_counts_when_it_is_old() -> None:
    stamp = (1, 2, 3, 100 * SECOND_NS, 99 * SECOND_NS)
    known: StampCache[str] = StampCache()
    for read_at, expected in ((99, None), (101, None), (102, None), (103, "text"), (101, None), (9, "text")):
        known.put("/f", stamp, read_at * SECOND_NS, "text")
        assert known.get("/f", stamp) == expected, read_at
    known.put("/f", stamp, 103 * SECOND_NS, "text")
    for place in range(5):
        other = tuple(value + (index == place) for index, value in enumerate(stamp))
        assert known.get("/f", (other[0], other[1], other[2], other[3], other[4])) is None
    assert known.get("/g", stamp) is None


def test_other_bytes_that_are_no_text(tmp_path: Path) -> None:
    loader = WorkspaceLoader(tmp_path)
    for letter in "öü":
        write(tmp_path, FILES | {"a.kernel.toml": KERNEL.replace("first", letter).encode("latin-1")})
        assert f"`{letter}` in Latin-1" in loader.load().diagnostics[0].message


def test_overlays_alternate_without_reading_again(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    kernel, template = str(tmp_path / "a.kernel.toml"), str(tmp_path / "templates/tile.j2")
    new = str(tmp_path / "n.kernel.toml")
    scopes: list[dict[str, str]] = [
        {},
        {kernel: KERNEL.replace("128", "64"), template: "{{ AnyWord }}"},
        {kernel: KERNEL.replace("128", "256"), new: KERNEL},
        {kernel: "broken =", template: "{{ mPerBlock }}"},
    ]
    loader = WorkspaceLoader(tmp_path)
    first = [loader.load(overlays) for overlays in scopes]
    assert first == [load_workspace(tmp_path, overlays=overlays) for overlays in scopes]
    assert len({tuple(one.name for one in found.kernels) for found in first}) == 4
    for overlays, before in [*zip(scopes, first, strict=True)] * 2:
        assert replaced(before, loader.load(overlays)) == set()


@pytest.mark.parametrize(("kept", "expected"), [(100, 0), (0, 30)])
def test_what_no_load_uses_is_forgotten(
    tmp_path: Path, kept: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (reloading, template_search):
        monkeypatch.setattr(module, "UNUSED_KEPT", kept)
    workspace(tmp_path, {})
    loader = WorkspaceLoader(tmp_path)
    overlays = {str(tmp_path / f"k{index}.kernel.toml"): KERNEL for index in range(30)}
    before = loader.load(overlays)
    loader.load()
    assert len(replaced(before, loader.load(overlays))) == expected


def test_no_workspace_any_more(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    loader = WorkspaceLoader(tmp_path / "ckwatch.toml")
    before = loader.load()
    (tmp_path / "ckwatch.toml").unlink()
    with pytest.raises(CkwatchError, match="ckwatch init"):
        loader.load()
    write(tmp_path, {"ckwatch.toml": ""})
    assert replaced(before, loader.load()) == set()


def test_a_root_below_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "w", FILES)
    monkeypatch.chdir(tmp_path)
    loader = WorkspaceLoader(Path("w"))
    monkeypatch.chdir("/")
    assert loader.load() == load_workspace(tmp_path / "w")


def test_threads_wait_for_each_other(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    loader = WorkspaceLoader(tmp_path)
    found: list[Workspace] = []
    threads = [threading.Thread(target=lambda: found.append(loader.load())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [replaced(found[0], one) for one in found] == [set()] * 8


KERNEL_TEXTS = st.sampled_from(
    [
        KERNEL,
        KERNEL.replace("t.hip.j2", "u.hip.j2"),
        KERNEL.replace("t.hip.j2", "v.hip.j2"),
        KERNEL.replace("t.hip.j2", "x.cpp.j2"),
        KERNEL.replace("first", "second"),
        KERNEL.replace("MPerBlock", "mperblock"),
        'name = "same"\n' + KERNEL.replace("t.hip.j2", "u.hip.j2"),
        KERNEL + INSTANCE.replace("first", "next"),
        KERNEL + "[[instance]]\n",
        f"template = 't.hip.j2'\narchs = ['host', 'gfx950']\n{OPERATION}{INSTANCE}",
        KERNEL + "[[sweep]]\nname = 's'\nparameters.MPerBlock = [1, 2, 3]\n",
        "template =",
        "",
    ]
)
TEMPLATE_TEXTS = st.sampled_from(
    [
        TEMPLATE,
        TEMPLATE + "//",
        "{{ M_Per_Block }}",
        "{% include 'tile.j2' %}",
        "{% include 'tile.j2' %}{% import 'u.hip.j2' as u %}",
        "{% include 'gone.j2' %}{{ MPERBLOCK }}",
        "{% include name %}{{ MPERBLOCK }}",
        "{{ parameters }}",
        "",
    ]
)
SETTINGS_TEXTS = st.sampled_from(
    [
        "",
        "[workspace]\narchs = ['gfx950', 'gfx942']\n",
        "[workspace]\nkernels = ['*.kernel.toml', 'sub/?.kernel.toml', '*.toml']\n",
        "[workspace]\ntemplates = ['more', 'templates', 'gone']\n",
        "[limits]\ninstances = 1\n",
        "broken",
    ]
)
BYTES = st.sampled_from(
    [b"\xff\xfe", KERNEL.replace("first", "gr\xf6sse").encode("latin-1"), b"\xef\xbb\xbf" + KERNEL.encode()]
)
KERNEL_NAMES = st.sampled_from(["a.kernel.toml", "b.kernel.toml", "sub/c.kernel.toml", "linked/far.kernel.toml"])
TEMPLATE_NAMES = st.sampled_from(
    ["templates/t.hip.j2", "templates/u.hip.j2", "templates/v/v.hip.j2", "templates/tile.j2", "more/t.hip.j2"]
)
LINKS = st.sampled_from([("z.kernel.toml", "a.kernel.toml"), ("linked", "sub"), ("templates/v.hip.j2", "t.hip.j2")])
TEXTS = st.one_of(
    st.tuples(KERNEL_NAMES, KERNEL_TEXTS),
    st.tuples(TEMPLATE_NAMES, TEMPLATE_TEXTS),
    st.tuples(st.just("ckwatch.toml"), SETTINGS_TEXTS),
)


@dataclass(frozen=True, slots=True)
class Edit:
    """One step: files written, removed or linked, or the overlays of a scope replaced; then `scope` is loaded."""

    written: tuple[str, str | bytes] | None = None
    removed: str | None = None
    link: tuple[str, str] | None = None
    overlays: dict[str, str] | None = None
    scope: int = 0


SCOPES = st.integers(0, 2)
EDITS = st.one_of(
    st.builds(Edit, written=TEXTS, scope=SCOPES),
    st.builds(Edit, written=st.tuples(KERNEL_NAMES, BYTES), scope=SCOPES),
    st.builds(Edit, removed=st.one_of(KERNEL_NAMES, TEMPLATE_NAMES, st.just("ckwatch.toml")), scope=SCOPES),
    st.builds(Edit, link=LINKS, scope=SCOPES),
    st.builds(
        Edit,
        overlays=st.dictionaries(KERNEL_NAMES | TEMPLATE_NAMES, KERNEL_TEXTS | TEMPLATE_TEXTS, max_size=3),
        scope=SCOPES,
    ),
    st.builds(Edit, scope=SCOPES),
)


def loaded(load: Callable[[], Workspace]) -> Workspace | str:
    """Return the result of `load`, or the message of its error."""
    try:
        return load()
    except CkwatchError as error:
        return str(error)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edits=st.lists(EDITS, min_size=1, max_size=12), late=st.booleans())
def test_any_edits(edits: list[Edit], late: bool) -> None:
    """Whatever is edited, the loader's result is that of `load_workspace`, and a second load makes nothing anew."""
    times = itertools.count(SECOND_NS, SECOND_NS)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write(root, FILES)
        loader = WorkspaceLoader(root, clock=settled if late else time.time_ns)
        overlays: list[dict[str, str]] = [{}, {}, {}]
        for edit in edits:
            with contextlib.suppress(OSError):
                if edit.written is not None:
                    write(root, dict([edit.written]))
                    # a late clock trusts all times, so that no two of them may be the same
                    os.utime(root / edit.written[0], ns=(0, next(times)))
                if edit.removed is not None:
                    (root / edit.removed).unlink()
                if edit.link is not None:
                    (root / edit.link[0]).symlink_to(root / edit.link[1] if "/" not in edit.link[0] else edit.link[1])
            if edit.overlays is not None:
                overlays[edit.scope] = {str(root / name): text for name, text in edit.overlays.items()}
            overlay = overlays[edit.scope]
            found = loaded(partial(loader.load, overlay))
            assert found == loaded(partial(load_workspace, root, overlays=overlay))
            if isinstance(found, Workspace):
                assert replaced(found, loader.load(overlay)) == set()
