"""The daemon's profile: what py-spy saw, by process, room and function."""

from __future__ import annotations

from benchmarks.profiling import RATE, Profile

DAEMON = 'process 1:"/venv/bin/python -P /home/me/ckwatch/benchmarks/quick_daemon.py /ws --ready-fd 8"'
WORKER = 'process 2:"/venv/bin/python -P -m ckwatch.render.worker /ws/templates"'
WATCHER = 'process 3:"/venv/bin/python -I -S /home/me/daemon/ckwatch/engine/watch/notify_process.py"'
STEP = "step (/home/me/ckwatch/daemon/ckwatch/core/step.py:10)"
DUMPS = "dumps (/usr/lib/python3.11/json/__init__.py:183)"
RENDER = "Renderer.render (/home/me/ckwatch/daemon/ckwatch/render/renderer.py:40)"


def test_a_library_counts_for_the_room_that_calls_it() -> None:
    profile = Profile([f"{DAEMON};{STEP};{DUMPS} 3", f"{DAEMON};{STEP} 1", f"{DAEMON};{WORKER};{RENDER} 2"])
    assert profile.rooms == {("daemon", "core"): 4, ("render.worker", "render"): 2}
    assert profile.own[("daemon", "ckwatch/core/step.py", "step")] == 1
    assert profile.whole[("daemon", "ckwatch/core/step.py", "step")] == 4


def test_what_waits_and_what_answers_the_measurement_is_left_out() -> None:
    waits = "main (/home/me/daemon/ckwatch/engine/watch/notify_process.py:30)"
    asks = "StatusQueries.status (/home/me/ckwatch/daemon/ckwatch/engine/queries/status.py:60)"
    assert Profile([f"{DAEMON};{WATCHER};{waits} 5", f"{DAEMON};{asks};{DUMPS} 5"]).own == {}


def test_the_tables_name_the_most_expensive_first() -> None:
    lines = list(Profile([f"{DAEMON};{STEP};{DUMPS} {3 * RATE}", f"{DAEMON};{STEP} {RATE}"]).tables())
    assert lines[0] == "4.0 s of running threads were seen."
    assert [line for line in lines if "`" in line] == [
        "| daemon | json/__init__.py | `dumps` | 75.0% | 75.0% |",
        "| daemon | ckwatch/core/step.py | `step` | 25.0% | 100.0% |",
    ]
