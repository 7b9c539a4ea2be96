"""The daemon's log."""

from __future__ import annotations

import logging
import stat
from logging.handlers import RotatingFileHandler
from pathlib import Path

import pytest

from ckwatch.server.logs import FILE_BYTES, file_handler, logging_to

ours = logging.getLogger("ckwatch.server.test")


def test_what_is_logged(tmp_path: Path) -> None:
    path = tmp_path / "state" / "w" / "daemon.log"
    level = logging.getLogger("ckwatch").level
    with logging_to(file_handler(path)):
        ours.info("ready: %s", "ü \udcff")
        ours.debug("too much")
        logging.getLogger("uvicorn.error").info("of no interest")
        logging.getLogger("uvicorn.error").warning("what is this")
        try:
            raise ZeroDivisionError("a fault")
        except ZeroDivisionError:
            ours.exception("it failed")
    ours.warning("after the end")
    text = path.read_text()
    assert [line.split(" ", 2)[2] for line in text.splitlines() if line.startswith("2")] == [
        "INFO ckwatch.server.test: ready: ü \\udcff",
        "WARNING uvicorn.error: what is this",
        "ERROR ckwatch.server.test: it failed",
    ]
    assert "Traceback" in text
    assert text.endswith("ZeroDivisionError: a fault\n")
    assert stat.S_IMODE(path.parent.stat().st_mode) & 0o077 == 0
    assert logging.getLogger("ckwatch").level == level


def test_it_does_not_grow_for_ever(tmp_path: Path) -> None:
    with logging_to(file_handler(tmp_path / "daemon.log")):
        for _ in range(30):
            ours.info("x" * (FILE_BYTES // 10))
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(sizes) == {"daemon.log", "daemon.log.1"}
    assert all(size <= FILE_BYTES for size in sizes.values())


def test_where_no_file_can_be_it_goes_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "state").write_text("")
    with logging_to(file_handler(tmp_path / "state" / "daemon.log")):
        ours.info("heard")
    assert "heard" in capsys.readouterr().err


def test_a_full_disk_is_no_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    handler = file_handler(tmp_path / "daemon.log")
    assert isinstance(handler, RotatingFileHandler)
    assert handler.stream is not None
    handler.stream.close()
    handler.stream = Path("/dev/full").open("w")  # noqa: SIM115 - the handler closes it
    with logging_to(handler):
        ours.info("lost")
    assert capsys.readouterr().err == ""
