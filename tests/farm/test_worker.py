"""Messages that a worker accepts, and those that it refuses."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from ckwatch.compile.request import CompileRequest
from ckwatch.farm.messages import READY, FarmCompile, WorkerFacts, compile_resource
from ckwatch.farm.worker import FOLDER_VARIABLE, FarmWorker, default_farm_folder, device_resource
from ckwatch.model.errors import CkwatchError
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.targets import Language

CONTENT = b"int own;\n"
MESSAGE = FarmCompile(
    key="key", identity="1a2b",
    request=CompileRequest("", "k", Language.HIP, "gfx942", include_folders=(Path("<workspace>"),), kernel="k"),
    files=(("<workspace>/include/own.hpp", hashlib.sha256(CONTENT).hexdigest()),), roots={"workspace": "/ws"},
)  # fmt: skip
CONTENTS = {MESSAGE.files[0][1]: CONTENT}


@pytest.fixture
def worker(tmp_path: Path) -> FarmWorker:
    return FarmWorker(tmp_path / "farm", with_devices=False)


def test_the_tree_of_a_workspace_is_made_once(worker: FarmWorker, tmp_path: Path) -> None:
    tree = worker._tree(MESSAGE, CONTENTS)
    assert isinstance(tree, Path)
    assert (tree / "workspace/include/own.hpp").read_bytes() == CONTENT
    assert tree.is_relative_to(tmp_path / "farm/trees")
    assert worker._tree(MESSAGE, {}) == tree
    assert [*(tmp_path / "farm/trees").iterdir()] == [tree]


@pytest.mark.parametrize(
    "path",
    ["<workspace>/../../../own.hpp", "<..>/own.hpp", "</etc>/own.hpp", "<workspace>//etc/own.hpp", "<workspace>/"],
)
def test_nothing_is_written_outside(worker: FarmWorker, tmp_path: Path, path: str) -> None:
    message = replace(MESSAGE, files=((path, MESSAGE.files[0][1]),))
    with pytest.raises(CkwatchError, match="is not a path below a folder"):
        worker._tree(message, CONTENTS)
    assert [*(tmp_path / "farm/trees").iterdir()] == []


def test_what_was_changed_on_its_way_is_refused(worker: FarmWorker) -> None:
    with pytest.raises(CkwatchError, match="was changed on its way"):
        worker._tree(MESSAGE, {MESSAGE.files[0][1]: b"int other;\n"})


def test_a_content_is_sent_once(worker: FarmWorker, tmp_path: Path) -> None:
    digest = MESSAGE.files[0][1]
    assert worker._tree(MESSAGE, {}) == (digest,)
    worker._tree(MESSAGE, CONTENTS)
    elsewhere = replace(MESSAGE, files=(("<workspace>/other.hpp", digest),))
    tree = worker._tree(elsewhere, {})
    assert isinstance(tree, Path)
    assert (tree / "workspace/other.hpp").read_bytes() == CONTENT
    (tmp_path / "farm/contents" / digest).write_text("damaged")
    assert worker._tree(replace(MESSAGE, files=(("<workspace>/third.hpp", digest),)), {}) == (digest,)


def test_what_a_worker_announces(worker: FarmWorker) -> None:
    gpu = DeviceFacts(name="hip:0", arch="gfx942:sramecc+", description="MI300X", pci="0000:01:00.0")
    worker._facts = WorkerFacts(machine="box", devices=(gpu, gpu))
    worker._toolchains = {"1a2b": cast("Any", None)}
    assert worker.resources(4) == {READY: 4.0, compile_resource("1a2b"): 4.0, "hip:gfx942": 2.0}
    assert device_resource(gpu) == "hip:gfx942"


def test_a_worker_keeps_to_its_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert default_farm_folder() == tmp_path
    monkeypatch.delenv(FOLDER_VARIABLE)
    assert default_farm_folder().parts[-2:] == ("ckwatch", "farm")
