"""`ckwatch farm` with a real cluster on this machine, under TLS; the compiler is never called."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from ckwatch.cli import main
from ckwatch.cli.schema import command_schema
from ckwatch.farm import cluster
from ckwatch.farm.certificates import make_certificates
from farms.farm_bench import until
from helpers.rocm_trees import make_rocm
from helpers.running_processes import runs

SETTINGS = '[farm]\ncluster = "local"\nworkers = 2\nport = 0\n'


@pytest.fixture
def workspace(
    daemons: Path, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("ROCM_PATH", str(make_rocm(tmp_path / "rocm", "7.2.4")))
    (small / "ckwatch.toml").write_text(SETTINGS)
    yield small
    main(["farm", "down", "-C", str(small)])
    capsys.readouterr()


def ckwatch(workspace: Path, *arguments: str) -> int:
    return main(["farm", *arguments, "-C", str(workspace)])


def listing(workspace: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    ckwatch(workspace, "status", "--json")
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    jsonschema_rs.validate(command_schema("farm status"), found)
    return found


def children(pid: int) -> list[int]:
    """All processes below one."""
    below = [int(one) for path in Path(f"/proc/{pid}/task").glob("*/children") for one in path.read_text().split()]
    return below + [deeper for one in below for deeper in children(one)]


def test_up_status_down(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ckwatch(workspace, "status") == 1
    assert "the farm is not up" in capsys.readouterr().out
    assert ckwatch(workspace, "certificates", "gpu-box") == 0
    assert "gpu-box" in capsys.readouterr().out
    assert ckwatch(workspace, "up", "--trust") == 0
    said = capsys.readouterr().out
    assert "the farm is up at tls://127.0.0.1:" in said
    assert ckwatch(workspace, "up") == 0
    assert "already up at tls://" in capsys.readouterr().out
    until(lambda: sum(one["compiles"] for one in listing(workspace, capsys)["workers"]) > 1, "two workers")
    assert ckwatch(workspace, "status") == 0
    said = capsys.readouterr().out
    assert "2 workers" in said
    assert "BEGIN" not in (cluster.cluster_log(workspace).read_text()), "keys are in no log"
    found = cluster.running_cluster(workspace)
    assert found is not None
    below = children(found.pid)
    assert ckwatch(workspace, "down") == 0
    assert "the farm is down" in capsys.readouterr().out
    until(lambda: not any(map(runs, (found.pid, *below))), "the end of all its processes")
    assert ckwatch(workspace, "down") == 0
    assert "the farm is not up" in capsys.readouterr().out


def test_a_killed_cluster_leaves_nothing(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ckwatch(workspace, "up", "--trust") == 0
    said = capsys.readouterr()
    assert "the farm is up at tcp://127.0.0.1:" in said.out, "without certificates it is for this machine"
    assert "every user of this machine can run programs as you" in said.err
    found = cluster.running_cluster(workspace)
    assert found is not None
    until(lambda: len(listing(workspace, capsys)["workers"]) > 1, "two workers")
    below = children(found.pid)
    assert len(below) > 1
    os.kill(found.pid, signal.SIGKILL)
    until(lambda: not any(map(runs, (found.pid, *below))), "the end of all its processes")
    assert listing(workspace, capsys) == {"schema": 1, "up": False, "cluster": "local", "address": None, "workers": []}
    assert ckwatch(workspace, "up") == 0


def test_another_authority_is_refused(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ckwatch(workspace, "certificates")
    assert ckwatch(workspace, "up", "--trust") == 0
    capsys.readouterr()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "other"))
    make_certificates(tmp_path / "other/ckwatch/farm")
    assert ckwatch(workspace, "status") == 2
    assert "does not answer: TLS certificate does not match" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_interrupted_while_it_starts_leaves_nothing(
    workspace: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
) -> None:
    command = [sys.executable, "-m", "ckwatch", "farm", "up", "--trust", "-C", str(workspace)]
    (workspace / "ckwatch.toml").write_text('[farm]\ncluster = "slurm"\nport = 0\n')
    submits = tmp_path / "sbatch"
    submits.write_text(f"#!/bin/sh\ntouch {tmp_path}/submitted\nexec sleep 1000\n")
    submits.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert ckwatch(workspace, "certificates") == 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as starting:
        until((tmp_path / "submitted").exists, "a cluster that starts")
        assert [ckwatch(workspace, action) for action in ("up", "down")] == [2, 2]
        assert capsys.readouterr().err.count("the farm is starting or stopping") == 2
        starting.send_signal(number)
        said, _ = starting.communicate()
    assert "up at" not in said
    assert starting.returncode == 128 + number
    until(lambda: not cluster.is_up(workspace), "the end of the cluster")
    assert ckwatch(workspace, "down") == 0


@pytest.mark.parametrize("command", ["up", "status", "down", "certificates"])
def test_mistakes_in_the_settings_are_shown_at_their_place(
    workspace: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (workspace / "ckwatch.toml").write_text('[farm]\ncluster = "ssh"\nhosts = ["a"]\nmost_workers = 3\n')
    assert ckwatch(workspace, command) == 1
    said = capsys.readouterr().out
    assert "ckwatch.toml:4:16" in said
    assert "an ssh cluster has the workers of its `hosts`" in said
    (workspace / "ckwatch.toml").write_text(SETTINGS)


@pytest.mark.parametrize(
    ("text", "command", "message"),
    [
        ("", "up", "[farm] of ckwatch.toml names no cluster to start"),
        ("", "status", "[farm] of ckwatch.toml names no cluster to start"),
        ('[farm]\nscheduler = "tls://box:8786"\n', "up", "dask worker tls://box:8786 --preload ckwatch.farm.worker"),
        ('[farm]\nscheduler = "tls://box:8786"\n', "down", "End it where it was started."),
        ('[farm]\nscheduler = "tls://box:8786"\n', "status", "there are no certificates for the farm"),
        ('[farm]\ncluster = "slurm"\n', "up", "there are no certificates for the farm"),
        (
            '[farm]\ncluster = "local"\n[farm.options]\nwalltime = "1"\n',
            "up",
            "the cluster does not take these options",
        ),
    ],
)
def test_what_cannot_be_done_says_why(
    workspace: Path, capsys: pytest.CaptureFixture[str], text: str, command: str, message: str
) -> None:
    (workspace / "ckwatch.toml").write_text(text)
    arguments = ["--trust"] if command == "up" else []
    assert ckwatch(workspace, command, *arguments) == 2
    assert message in capsys.readouterr().err
    (workspace / "ckwatch.toml").write_text(SETTINGS)
