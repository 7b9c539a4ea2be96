"""The end of a log that grows, is moved away and emptied."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.cli import main
from ckwatch.cli.logs import LogFollower
from ckwatch.wire.endpoint import endpoint_of


def numbered(first: int, last: int) -> str:
    return "".join(f"line {number}\n" for number in range(first, last + 1))


def added(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@pytest.mark.parametrize(
    ("before", "now", "lines", "expected"),
    [
        ("", numbered(1, 5), 2, numbered(4, 5)),
        ("", numbered(1, 5), 9, numbered(1, 5)),
        (numbered(1, 5), numbered(6, 7), 4, numbered(4, 7)),
        (numbered(1, 50_000), numbered(50_001, 50_002), 40_000, numbered(10_003, 50_002)),
        ("", "no end of line", 1, "no end of line"),
        ("", "", 3, ""),
    ],
)
def test_last_lines(tmp_path: Path, before: str, now: str, lines: int, expected: str) -> None:
    if before:
        (tmp_path / "daemon.log.1").write_text(before)
    (tmp_path / "daemon.log").write_text(now)
    following = LogFollower(tmp_path / "daemon.log")
    assert following.last(lines).decode() == expected
    assert following.added() == b""
    following.close()


def test_what_is_added(tmp_path: Path) -> None:
    log = tmp_path / "daemon.log"
    following = LogFollower(log)
    assert following.last(10) == b""
    assert following.added() == b""
    added(log, numbered(1, 2))
    assert following.added().decode() == numbered(1, 2)
    assert following.added() == b""
    added(log, numbered(3, 3))
    log.rename(tmp_path / "daemon.log.1")
    added(log, numbered(4, 5))
    assert following.added().decode() == numbered(3, 5)
    log.write_text("x\n")
    assert following.added() == b"x\n"
    log.unlink()
    assert following.added() == b""
    added(log, numbered(6, 6))
    assert following.added().decode() == numbered(6, 6)
    following.close()


def test_logs(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    (tmp_path / "ckwatch.toml").touch()
    assert main(["logs", "-C", str(tmp_path)]) == 2
    assert b"no daemon has run" in capfdbinary.readouterr().err
    log = endpoint_of(tmp_path).log
    log.parent.mkdir(parents=True)
    log.write_text(numbered(1, 9))
    assert main(["logs", "-C", str(tmp_path), "-n", "2"]) == 0
    assert capfdbinary.readouterr().out == numbered(8, 9).encode()
