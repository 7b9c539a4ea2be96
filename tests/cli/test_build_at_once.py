"""Checks that the daemon answers at once, and those that are followed."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from benches.own_daemons import daemon_folders, small_workspace
from ckwatch.cli import main
from ckwatch.cli.reports import FORMATS
from ckwatch.cli.session import connected
from ckwatch.cli.signals import INTERRUPTED
from ckwatch.client import Client
from ckwatch.client.blocking_exchange import BlockingExchange

SLOW = {"anyio", "asyncio", "email", "jinja2", "numpy", "pydantic", "pydantic_core", "rich", "ssl"}
"""Each takes longer to load than the daemon to answer."""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A workspace with a daemon, with a mistake in its template."""
    place = tmp_path_factory.mktemp("served")
    with daemon_folders(place):
        root = small_workspace(place)
        assert main(["check", "--trust", "-C", str(root)]) == 0
        (root / "templates/t.hip.j2").write_text("int a = {{ Tile + undeclared }};\n")
        yield root
        main(["stop", "-C", str(root)])


@pytest.fixture
def served(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The workspace as the working directory."""
    monkeypatch.chdir(workspace)
    return workspace


def outcome(capsys: pytest.CaptureFixture[str], *words: str, **dependencies: Any) -> tuple[int, str, str]:
    capsys.readouterr()
    status = main(["check", *words], **dependencies)
    found = capsys.readouterr()
    return status, re.sub(r"in [\d.]+ s$|\"seconds\": [\d.]+", "TIME", found.out, flags=re.MULTILINE), found.err


LOADED = """
import sys
from ckwatch.cli import main
main(sys.argv[1:], at_once_s=3600.0)
print(*sys.modules, file=sys.stderr)
"""


def loaded(*words: str) -> set[str]:
    """The modules that a command loads, by the first part of their names."""
    done = subprocess.run([sys.executable, "-c", LOADED, *words], capture_output=True, text=True, check=False)
    return {name.partition(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize("options", [(), ("--json",), ("--report=sarif",), ("k/one",), ("k.kernel.toml", "--details")])
def test_nothing_slow_is_loaded(served: Path, options: tuple[str, ...]) -> None:
    modules = loaded("check", *options)
    assert "h11" in modules
    assert not SLOW & modules


@pytest.mark.parametrize(
    "words", [("list",), ("status", "--json"), ("explain", "k/one"), ("render", "k/one"), ("verify",), ("best", "k")]
)
def test_a_command_that_asks_loads_what_it_needs(served: Path, words: tuple[str, ...]) -> None:
    modules = loaded(*words)
    assert "anyio" in modules
    assert not {"fastapi", "jinja2", "numpy", "pydantic", "pydantic_core", "rich"} & modules


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--json",),
        ("--report=github",),
        ("k",),
        (".",),
        ("k.kernel.toml",),
        ("templates/t.hip.j2",),
        ("other",),
        ("k", "other"),
    ],
)
def test_the_same_as_when_it_is_followed(
    served: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert outcome(capsys, *words, at_once_s=3600.0) == outcome(capsys, *words, at_once_s=0.0)


@pytest.mark.parametrize("name", FORMATS)
def test_a_report_is_all_that_is_printed(served: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    status, out, err = outcome(capsys, f"--report={name}", at_once_s=3600.0)
    assert (status, err) == (1, "")
    assert "templates/t.hip.j2" in out
    begins = {"sarif": "{", "junit": "<?xml", "gitlab": "[", "github": "::error file=templates/t.hip.j2,line=1,"}
    assert out.startswith(begins[name])


def test_reports_in_files_beside_the_text(served: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [f"--report={name}={tmp_path / 'reports' / name}" for name in FORMATS]
    assert outcome(capsys, *files, at_once_s=3600.0) == outcome(capsys, at_once_s=3600.0)
    for name in FORMATS:
        assert "templates/t.hip.j2" in (tmp_path / "reports" / name).read_text()
    status, _, err = outcome(capsys, "--report=sarif", "--report=junit")
    assert (status, "two reports cannot go to standard output" in err) == (2, True)
    with pytest.raises(SystemExit):
        outcome(capsys, "--report=sariff=x")


def test_a_report_of_a_mistake_in_the_settings(served: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = served / "ckwatch.toml"
    before = settings.read_text()
    settings.write_text("x = [\n")
    try:
        status, out, _ = outcome(capsys, "--report=gitlab", "nothing", at_once_s=3600.0)
    finally:
        settings.write_text(before)
    assert status == 1
    assert [one["location"]["path"] for one in json.loads(out)] == ["ckwatch.toml"]


def test_paths_by_another_name_of_the_workspace(
    served: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / "link"
    link.symlink_to(served)
    status, out, _ = outcome(capsys, str(link / "k.kernel.toml"), at_once_s=3600.0)
    assert status == 1
    assert out.startswith("  failed  k/one@")
    assert "\ntemplates/t.hip.j2:1:19: error: " in out


def test_what_is_not_trusted_is_asked_for(served: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trust", "--remove"]) == 0
    status, _, err = outcome(capsys)
    assert main(["trust"]) == 0
    assert status == 2
    assert "is not trusted" in err


@asynccontextmanager
async def private(options: argparse.Namespace, start: Path) -> AsyncIterator[Client]:
    """The client of a command, which asks another process than its own for nothing."""
    async with connected(options, start) as client:
        assert (await client.status()).pid == os.getpid()
        yield client


def test_trust_once_asks_no_daemon_that_runs(served: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trust", "--remove"]) == 0
    try:
        statuses = [outcome(capsys, "--trust-once", connected=private)[0], outcome(capsys)[0]]
    finally:
        assert main(["trust"]) == 0
    assert statuses == [1, 2]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_a_signal_ends_it_while_it_waits(
    served: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    status: int,
) -> None:
    def wait(_exchange: BlockingExchange, _until_s: float) -> tuple[int, bytes]:
        signal.raise_signal(number)
        raise AssertionError("the signal is ignored")

    handlers = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    monkeypatch.setattr(BlockingExchange, "answer", wait)
    assert outcome(capsys)[0] == status
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == handlers
