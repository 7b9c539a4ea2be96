"""A process that is killed at any moment leaves the old state or the new one."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from ckwatch.bench.history.runs import History, UnitRecord
from fakes.patience import PATIENCE_S

EMPTY = UnitRecord("", "", "", "built", 0.0, 0.0, 0, False, {}, ())

BETWEEN_STATEMENTS = """
import os, signal, sqlite3, sys
from dataclasses import replace
from pathlib import Path
from ckwatch.bench.history.runs import History, UnitRecord

folder = Path(sys.argv[1])
connect = sqlite3.connect
left = 0

def traced(*arguments, **more):
    def count(statement):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    connection = connect(*arguments, **more)
    connection.set_trace_callback(count)
    return connection

def record():
    global left
    left = statements
    sqlite3.connect = traced
    history = History(folder / str(statements) / "history.sqlite")
    history.open()
    for version in "12":
        history.record([UnitRecord(name, version, version, "built", 1.0, 1.0, 1, False, {"/t": version}, ((version, 1.0),))
                        for name in "abc"], removed=["d"])

for statements in range(1000):
    child = os.fork()
    if child == 0:
        record()
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
print(statements)
"""


def test_between_any_two_statements(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", BETWEEN_STATEMENTS, str(tmp_path)]
    steps = int(subprocess.run(arguments, check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout)
    assert steps > 30
    seen = []
    for statements in range(steps + 1):
        history = History(tmp_path / str(statements) / "history.sqlite")
        history.open()
        with closing(history):
            found = [*history.units().values()]
            versions = {(one.token_key, one.key, one.reads["/t"], one.cause[0][0]) for one in found}
            assert history.notice is None
        with closing(sqlite3.connect(history.path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert len(found) in (0, 3)
        assert len(versions) == (1 if found else 0), versions
        seen.append(min(versions)[0] if versions else "0")
    assert (seen, set(seen)) == (sorted(seen), {"0", "1", "2"})


RECORDING = """
import itertools, sys
from pathlib import Path
from ckwatch.bench.history.runs import History, UnitRecord

history = History(Path(sys.argv[1]))
history.open()
print(history.note_start(1.0, 1, "1"), flush=True)
for number in itertools.count(int(sys.argv[2])):
    text = str(number)
    history.record([UnitRecord(f"k/{index}@gfx942", text, text, "built", number, number, number, False,
                               {f"/t{index % 3}": text}, ((text, number),)) for index in range(200)])
    print(number, flush=True)
"""


def test_killed_while_it_records(tmp_path: Path) -> None:
    """Twenty times; what was reported as recorded is there, and every unit is of one and the same transaction."""
    path = tmp_path / "history.sqlite"
    chance = random.Random(3)  # noqa: S311  # when to kill
    number = 1
    for attempt in range(20):
        arguments = [sys.executable, "-c", RECORDING, str(path), str(number)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == f"{attempt == 0}\n"
            for _ in range(chance.randrange(4)):
                number = int(child.stdout.readline())
            child.kill()
            reported = [int(line) for line in child.stdout if line.endswith("\n")]
        history = History(path)
        history.open()
        with closing(history):
            found = history.units()
            assert history.notice is None
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        latest = int(found["k/0@gfx942"].key) if found else 0
        assert latest >= max([number - 1, *reported])
        text = str(latest)
        for index, one in enumerate(found.values()):
            assert one == replace(
                EMPTY,
                unit=f"k/{index}@gfx942",
                token_key=text,
                key=text,
                finished_at=float(latest),
                seconds=float(latest),
                peak_memory_bytes=latest,
                reads={f"/t{index % 3}": text},
                cause=((text, latest),),
            )
        number = latest + 1
    assert number > 10
