"""`ckwatch explain --time`: what is printed and written, with a compiler that is a script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benches.daemon_bench import TEMPLATE, Bench
from ckwatch.cli import main
from ckwatch.cli.explain import WIDTH, compile_time_lines
from ckwatch.compile.timetrace.summary import TemplateCost
from ckwatch.wire.messages import PassTime, TimeTrace

TRACES = Path(__file__).parent.parent / "data/timetrace"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Commands on it use the compiler of the bench, which leaves the traces that are there."""
    made = Bench(tmp_path)
    script = tmp_path / "hipcc"
    script.write_text(script.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\ncp '{TRACES}'/*.json . 2>/dev/null\n"))

    monkeypatch.chdir(tmp_path)
    return made


def explained(bench: Bench, *arguments: str) -> int:
    return main(["explain", "k/one", "-C", str(bench.root), "--color", "never", *arguments], connected=bench.connected)


SHOWN = """\
k/one@gfx942
                              device pass (gfx942)               host pass
front end                          27.28 s"""


def test_the_table(bench: Bench, capsys: Capture) -> None:
    assert explained(bench, "--time") == 0
    out = capsys.readouterr().out
    assert out.startswith(SHOWN)
    lines = out.splitlines()
    assert max(map(len, lines)) <= WIDTH
    (optimizer,) = [line.split() for line in lines if line.startswith("  optimizer")]
    assert [word for word in optimizer if word[0].isdigit()][::2] == ["7.59", "0.03"]
    assert "device pass (gfx942): 21 instantiations of 12 templates" in lines
    assert "   7.24 s     7.25 s       7  ck::detail::applier::operator()" in lines


def test_json(bench: Bench, capsys: Capture) -> None:
    assert explained(bench, "--time", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["unit"], printed["schema"]) == ("k/one@gfx942", 1)
    device, host = printed["time"]["passes"]
    assert (device["side"], host["side"]) == ("device", "host")
    assert device["front_end"] + device["back_end"] + device["stages"]["other"] == pytest.approx(35.404473)
    assert device["templates"][0]["self_s"] == pytest.approx(9.5, abs=0.1)
    assert printed["time"]["trace"] is None
    assert explained(bench, "--json") == 0
    assert json.loads(capsys.readouterr().out)["time"] is None


def test_the_trace_lies_where_the_user_is(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    assert explained(bench, "--trace", "a trace.json") == 0
    assert capsys.readouterr().out.endswith(f"wrote {tmp_path / 'a trace.json'}\n")
    assert json.loads((tmp_path / "a trace.json").read_text())["traceEvents"]


def test_a_unit_that_does_not_compile(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    bench.write("templates/k.hip.j2", TEMPLATE + "BROKEN x;\n")
    assert explained(bench, "--trace", "t.json") == 1
    out = capsys.readouterr().out
    assert "templates/k.hip.j2:4:1: error: BROKEN is no type" in out
    assert "front end" not in out
    assert not (tmp_path / "t.json").exists()
    assert explained(bench, "--time", "--json") == 1
    printed = json.loads(capsys.readouterr().out)
    assert (printed["time"]["passes"], len(printed["diagnostics"])) == ([], 1)


def test_a_unit_that_does_not_render(bench: Bench, capsys: Capture) -> None:
    bench.write("templates/k.hip.j2", TEMPLATE.replace("Tile", "Tyle"))
    assert explained(bench, "--time") == 1
    assert "templates/k.hip.j2:2:15: error: 'Tyle' is undefined" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--trace", "gone/t.json"), "gone/t.json: No such file or directory"),
        (("--trace", "."), "it is a folder"),
    ],
)
def test_a_file_that_cannot_be_written(bench: Bench, capsys: Capture, arguments: tuple[str, ...], message: str) -> None:
    assert explained(bench, *arguments) == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert errors.startswith("ckwatch: error: cannot write ")
    assert bench.runs == []


def test_an_unknown_unit(bench: Bench, capsys: Capture) -> None:
    assert main(["explain", "k/noe", "--time", "-C", str(bench.root)], connected=bench.connected) == 2
    assert "no kernel, instance or unit is called 'k/noe'" in capsys.readouterr().err


def test_no_compiler(bench: Bench, capsys: Capture) -> None:
    (bench.folder / "hipcc").unlink()
    assert explained(bench, "--time") == 2
    assert "ckwatch: error: cannot start " in capsys.readouterr().err


def one_pass(**changes: object) -> PassTime:
    """A host pass."""
    values: dict[str, Any] = {
        "side": "host", "name": "host pass", "seconds": 2.0, "stages": {"parsing": 1.5, "optimizer": 0.25, "other": 0.1},
        "templates": (), "template_count": 0, "instantiation_count": 0,
    }  # fmt: skip
    return PassTime(**(values | changes))


def test_one_pass_has_one_column() -> None:
    lines = [text for text, _ in compile_time_lines(TimeTrace(unit="u", granularity_us=100, passes=(one_pass(),)))]
    assert lines[0].split() == ["host", "pass"]
    assert lines[1].split() == ["front", "end", "1.50", "s", "75", "%"]
    assert [line.split()[-4:] for line in lines if line.startswith("start")] == [["0.25", "s", "12", "%"]]
    assert not any("side by side" in line for line in lines)


def test_long_names_and_large_numbers_fit() -> None:
    name = "ck::" + "very_long_name::" * 20 + "(lambda)::end"
    cost = TemplateCost(name=name, count=123_456, inclusive_s=1234.5, self_s=999.99)
    passes = tuple(
        one_pass(
            name=f"device pass ({arch})", seconds=9999.0, templates=(cost,) * 30, template_count=5000,
            stages={"template instantiation": 40_000.0}, instantiation_count=1_000_000,
        )
        for arch in ("gfx90a:sramecc+:xnack-", "gfx942")
    )  # fmt: skip
    lines = [text for text, _ in compile_time_lines(TimeTrace(unit="u", granularity_us=100, passes=passes))]
    assert max(map(len, lines)) <= WIDTH
    assert sum(line.endswith("_name::λ::end") for line in lines) == 40
    assert sum(line.endswith("4,980 others") for line in lines) == 2


def test_a_pass_of_no_time() -> None:
    passes = (one_pass(seconds=0.0, stages={}),)
    lines = [text for text, _ in compile_time_lines(TimeTrace(unit="u", granularity_us=100, passes=passes))]
    assert lines[-4].split() == ["host", "pass:", "0", "instantiations", "of", "0", "templates"]
