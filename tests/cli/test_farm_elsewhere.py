"""`ckwatch farm` with workers that other programs start: jobs, and hosts behind ssh, all of them this machine.

`sbatch` and `scancel` are scripts that run and end what they are given, as Slurm would; the other end of ssh is
asyncssh's own server.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dask.config import deserialize

from ckwatch.cli import main
from fakes import ssh_server
from fakes.ssh_server import make_keys
from farms.farm_bench import until
from helpers.rocm_trees import make_rocm

SBATCH = """\
#!/bin/sh
cp "$1" "{folder}/job.sh"
setsid sh "{folder}/job.sh" >"{folder}/job.out" 2>&1 </dev/null &
echo "Submitted batch job $!"
"""
SCANCEL = '#!/bin/sh\nexec kill -TERM -- "-$1"\n'
JOBS = '[farm]\ncluster = "slurm"\nport = 0\n[farm.options]\ncores = 2\nmemory = "1 GiB"\nqueue = "short"\n'


@pytest.fixture
def workspace(
    daemons: Path, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ROCM_PATH", str(make_rocm(tmp_path / "rocm", "7.2.4")))
    assert main(["farm", "certificates", "-C", str(small)]) == 0
    yield small
    main(["farm", "down", "-C", str(small)])
    capsys.readouterr()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of `sbatch` and `scancel`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("sbatch", SBATCH.replace("{folder}", str(folder))), ("scancel", SCANCEL)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def up(workspace: Path, settings: str) -> int:
    (workspace / "ckwatch.toml").write_text(settings)
    return main(["farm", "up", "--trust", "-C", str(workspace)])


def workers(workspace: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Those that have said what they have."""
    capsys.readouterr()
    main(["farm", "status", "--json", "-C", str(workspace)])
    return [one for one in json.loads(capsys.readouterr().out)["workers"] if one["machine"]]


def processes(word: str) -> list[int]:
    """Those with the word in their command."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if word.encode() in text:
            found.append(int(process.name))
    return found


def test_workers_are_jobs(workspace: Path, programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert up(workspace, JOBS) == 0
    assert "the farm is up at tls://" in capsys.readouterr().out
    until(lambda: len(workers(workspace, capsys)) == 1, "a worker")
    assert workers(workspace, capsys)[0]["threads"] == 2
    script = (programs / "job.sh").read_text()
    assert "#SBATCH -p short" in script
    assert f"{sys.executable} -P -m distributed.cli.dask_worker tls://" in script
    assert "PRIVATE KEY" not in script
    assert main(["farm", "down", "-C", str(workspace)]) == 0
    until(lambda: not processes(str(workspace.parent / "config")), "the end of the job")


@pytest.mark.parametrize(
    ("sbatch", "settings", "message"),
    [
        (None, JOBS, "jobs cannot be submitted here: there is no `sbatch`"),
        ("#!/bin/sh\necho 'no such queue' >&2\nexit 1\n", JOBS, "the cluster cannot be started: no such queue"),
        (
            SBATCH,
            JOBS + "wall = 1\n",
            "does not take these options: Job.__init__() got an unexpected keyword argument 'wall'",
        ),
        (SBATCH, JOBS + 'security = "none"\n', "does not take these options"),
    ],
)
def test_jobs_that_cannot_be_submitted(
    workspace: Path,
    programs: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    sbatch: str | None,
    settings: str,
    message: str,
) -> None:
    (programs / "sbatch").unlink()
    if sbatch is None:
        monkeypatch.setenv("PATH", str(programs))
    else:
        (programs / "sbatch").write_text(sbatch)
        (programs / "sbatch").chmod(0o755)
    assert up(workspace, settings) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[str]:
    """The settings of a cluster whose hosts are this machine, but for `{hosts}`."""
    folder = tmp_path / "ssh"
    make_keys(folder)
    command = [sys.executable, ssh_server.__file__, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        known = folder / "known_hosts"
        known.write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
        connect = f'port = {port}\nknown_hosts = "{known}"\nclient_keys = ["{folder / "user"}"]\n'
        yield (f'[farm]\ncluster = "ssh"\nport = 0\nworkers = 2\n{{hosts}}[farm.options.connect_options]\n{connect}')
        server.kill()


def test_workers_are_hosts_behind_ssh(
    workspace: Path, sshd: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the two hosts is not there. dask's configuration is on their command lines, without others' tokens."""
    monkeypatch.setenv("DASK_COILED__TOKEN", "secret")
    assert up(workspace, sshd.format(hosts='hosts = ["127.0.0.1", "127.0.0.2"]\n')) == 0
    assert "the farm is up at tls://" in capsys.readouterr().out
    until(lambda: len(workers(workspace, capsys)) == 2, "two workers")
    lines = [Path(f"/proc/{one}/cmdline").read_bytes() for one in processes("distributed.cli.dask_spec")]
    told = [
        deserialize(found[1].decode()) for line in lines if (found := re.search(rb'INHERIT_CONFIG="([^"]+)"', line))
    ]
    assert told
    assert all("distributed" in one and "coiled" not in one for one in told)
    assert main(["farm", "down", "-C", str(workspace)]) == 0
    until(lambda: not processes("distributed.cli.dask_spec"), "the end of what was started there")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('hosts = ["127.0.0.2"]\n', "the cluster cannot be started: 127.0.0.2: [Errno 111]"),
        ('hosts = ["127.0.0.1"]\noptions.user = "a"\n', "does not take these options: user; there are connect_options"),
    ],
)
def test_hosts_that_cannot_be_used(
    workspace: Path, sshd: str, capsys: pytest.CaptureFixture[str], more: str, message: str
) -> None:
    assert up(workspace, sshd.format(hosts=more)) == 2
    assert message in capsys.readouterr().err
