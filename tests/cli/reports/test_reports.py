"""Findings in the formats of other programs: valid by their schemas, whatever messages and paths hold."""

from __future__ import annotations

import io
import json
import lzma
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import jsonschema  # type: ignore[import-untyped]  # its stubs are a package of their own
import pytest
import xmlschema

from ckwatch.cli.reports import FORMATS, report
from ckwatch.cli.reports.findings import Findings, UnitCase, repository_of
from ckwatch.model.diagnostics import Diagnostic, Fix, Related, Severity, Source
from ckwatch.model.text import span
from helpers.each_row import each_row

SCHEMAS = Path(__file__).parents[2] / "data" / "schemas"

HOSTILE = [
    "100% wrong\r\n::error file=x::y ::",
    "]]> <![CDATA[ &amp; <b>\"'",
    "\x1b[31mred\x1b[0m \x00\x07\x7f\x85",
    "a\ud800b \udcff \ufffe\uffff \U0001f600",
    "see [this](1) and a[i](2), {0} `x` | @user #1",
    "",
    "x" * 70_000,
]
PATHS = [
    "/repo/templates/t.hip.j2",
    "/repo/with blank, comma: and %41/ü.hip.j2",
    "/repo/C:\\kernels\\a.hip.j2",
    "/repo/\udcff\udcfe.hip.j2",
    "/repo/line\nbreak\r.toml",
    "/opt/rocm/include/ck/ck.hpp",
    "/repository/not/inside.hpp",
    "/repo/../outside.hpp",
]


def diagnostic(message: str = "wrong", path: str = PATHS[0], line: int = 3, **more: Any) -> Diagnostic:
    given: dict[str, Any] = {"severity": Severity.ERROR, "source": Source.RULE, "code": "rule/m-per-block", **more}
    return Diagnostic(message=message, span=span(path, line, 4, line, 9), **given)


def findings(*diagnostics: Diagnostic, lines: Mapping[int, str] | None = None, **more: Any) -> Findings:
    given: dict[str, Any] = {"units": (), "exit_status": 1, "summary": "1 unit: 1 failed", **more}

    def read_line(_path: str, line: int) -> str | None:
        return (lines or {}).get(line)

    return Findings(command="ckwatch check", folder="/repo", diagnostics=diagnostics, read_line=read_line, **given)


EVERYTHING = findings(
    *(diagnostic(message, path) for message in HOSTILE for path in PATHS),
    diagnostic(
        related=(Related("printed here", span(PATHS[1], 0, 0, 0, 1)), Related("also: no place", None)),
        fixes=(Fix(span(PATHS[0], 3, 4, 3, 4), "MPerBlock\x00"),),
        units=("k/a@gfx942", "k/\udcff@gfx942"),
        unit_count=3,
        approximate=True,
    ),
    *(diagnostic(severity=severity, source=Source.CLANG, code="clang/undeclared_var_use") for severity in Severity),
    Diagnostic(Severity.ERROR, Source.VERIFY, "plain", "backwards", span(PATHS[0], 9, 9, 2, 1)),
    units=(
        UnitCase(unit="k/a@gfx942", failed=HOSTILE[1], diagnostics=(diagnostic(HOSTILE[2]),), seconds=1234.5678),
        UnitCase(unit="k/b\x1b@gfx942", faulted="no \x00 memory"),
        UnitCase(unit="k/c@gfx942", skipped="by a rule"),
        UnitCase(unit="l/c@gfx942", more="VGPR 128 → 120 ]]>"),
    ),
)  # fmt: skip


@cache
def sarif_schema() -> Any:
    text = lzma.decompress((SCHEMAS / "sarif-2.1.0-rtm.5.json.xz").read_bytes())
    return jsonschema.Draft4Validator(json.loads(text))  # a pattern of the schema is refused by others


@cache
def junit_schema() -> xmlschema.XMLSchema:
    return xmlschema.XMLSchema(SCHEMAS / "junit-10.xsd")


def sarif(given: Findings) -> dict[str, Any]:
    found = json.loads(report(given, "sarif"))
    sarif_schema().validate(found)
    run: dict[str, Any] = found["runs"][0]
    return run


def junit(given: Findings) -> ElementTree.Element:
    text = report(given, "junit")
    junit_schema().validate(io.StringIO(text))
    return ElementTree.fromstring(text)  # noqa: S314  # our own


def gitlab(given: Findings) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(report(given, "gitlab"))
    for one in found:
        assert {*one} == {"check_name", "description", "fingerprint", "severity", "location"}
        assert one["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert one["location"]["lines"]["begin"] >= 1
    assert len({one["fingerprint"] for one in found}) == len(found), "GitLab drops findings with one fingerprint"
    return found


COMMAND = re.compile(r"::(error|warning|notice) ((?:[A-Za-z]+=[^,:\n]*,?)+)::([^\n\r]*)")


def github(given: Findings) -> tuple[list[tuple[str, dict[str, str], str]], list[str]]:
    """The commands, unescaped as the runner does it, and the other lines."""
    commands, others = [], []
    for line in report(given, "github").removesuffix("\n").split("\n"):
        if (found := COMMAND.fullmatch(line)) is None:
            others.append(line)
            continue
        properties = dict(pair.split("=", 1) for pair in found[2].split(","))
        commands.append((found[1], {name: unquote(value) for name, value in properties.items()}, unquote(found[3])))
    return commands, others


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_can_be_printed(name: str) -> None:
    for given in (EVERYTHING, findings(), findings(diagnostic())):
        text = report(given, name)
        assert text.endswith("\n")
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", text), "nothing steers a terminal"
        text.encode()


def test_sarif() -> None:
    run = sarif(EVERYTHING)
    rules, results = run["tool"]["driver"]["rules"], run["results"]
    assert len(results) == len(EVERYTHING.diagnostics)
    assert [rules[one["ruleIndex"]]["id"] for one in results] == [one.code for one in EVERYTHING.diagnostics]
    assert rules[0]["helpUri"] == "https://ckwatch.github.io/ckwatch/rules/#m-per-block"
    assert "helpUri" not in next(one for one in rules if one["id"] == "clang/undeclared_var_use")
    assert len({one["partialFingerprints"]["ckwatch/v1"] for one in results}) == len(results)
    assert [one["level"] for one in results[-5:-1]] == ["error", "warning", "note", "note"]


def test_sarif_has_places_fixes_and_what_is_related() -> None:
    (one,) = (one for one in sarif(EVERYTHING)["results"] if "relatedLocations" in one)
    assert one["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "templates/t.hip.j2", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 4, "startColumn": 5, "endLine": 4, "endColumn": 10},
    }
    assert one["message"]["text"] == "wrong\nfails in 2 of 3 units: k/a@gfx942, k/\ufffd@gfx942\nalso: no place"
    (related,) = one["relatedLocations"]
    assert (related["id"], related["message"]["text"]) == (1, "printed here")
    (fix,) = one["fixes"]
    assert fix["artifactChanges"][0]["replacements"][0]["insertedContent"] == {"text": "MPerBlock␀"}
    assert one["properties"]["approximate"]


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        (PATHS[1], "with%20blank%2C%20comma%3A%20and%20%2541/%C3%BC.hip.j2"),
        (PATHS[2], "C%3A%5Ckernels%5Ca.hip.j2"),
        (PATHS[3], "%FF%FE.hip.j2"),
        (PATHS[4], "line%0Abreak%0D.toml"),
        (PATHS[5], "file:///opt/rocm/include/ck/ck.hpp"),
        (PATHS[6], "file:///repository/not/inside.hpp"),
        (PATHS[7], "file:///repo/../outside.hpp"),
    ],
)
def test_sarif_names_files_by_their_bytes(path: str, uri: str) -> None:
    place = sarif(findings(diagnostic(path=path)))["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == uri
    assert ("uriBaseId" in place["artifactLocation"]) is not uri.startswith("file:")


def test_sarif_has_no_links_that_nobody_wrote() -> None:
    (one,) = sarif(findings(diagnostic("a[i](2) and [b] (3)")))["results"]
    assert one["message"]["text"] == "a\\[i\\](2) and [b] (3)"


def fingerprints(*diagnostics: Diagnostic, lines: Mapping[int, str]) -> list[str]:
    given = findings(*diagnostics, lines=lines)
    found = [one["partialFingerprints"]["ckwatch/v1"] for one in sarif(given)["results"]]
    assert found == [one["fingerprint"] for one in gitlab(given)]
    return found


def test_fingerprints_survive_moved_lines() -> None:
    before = fingerprints(
        diagnostic("128 % 96 = 32", line=3), diagnostic(line=5), diagnostic(line=7),
        lines={3: "MXdl = 3", 5: "a", 7: "b"},
    )  # fmt: skip
    after = fingerprints(
        diagnostic("128 % 80 = 48", line=40), diagnostic(line=70), diagnostic(line=90),
        lines={40: "\t  MXdl =  3", 70: "b", 90: "a"},
    )  # fmt: skip
    assert after == [before[0], before[2], before[1]]
    others = (replace(diagnostic(line=5), code="rule/n"), diagnostic(path=PATHS[1], line=5), diagnostic("bad", line=5))
    assert not {*before} & {*fingerprints(*others, lines={5: "a"})}


def test_equal_findings_have_their_own_fingerprints() -> None:
    assert len({*fingerprints(*[diagnostic()] * 3, lines={})}) == 3


def test_junit() -> None:
    root = junit(EVERYTHING)
    suites = {suite.attrib["name"]: suite for suite in root}
    k = suites["k"]
    assert {name: k.attrib[name] for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3", "failures": "1", "errors": "1", "skipped": "1",
    }  # fmt: skip
    assert [case.attrib["name"] for case in k] == ["a@gfx942", "b␛@gfx942", "c@gfx942"]
    failure = k[0][0]
    assert (failure.tag, failure.attrib["message"]) == ("failure", HOSTILE[1])
    assert "templates/t.hip.j2:4:5: error: <U+001B>[31mred" in (failure.text or "")
    assert [case[0].tag for case in k] == ["failure", "error", "skipped"]
    assert suites["l"][0][0].text == "VGPR 128 → 120 ]]>"
    assert int(root.attrib["tests"]) == sum(int(suite.attrib["tests"]) for suite in root)


def test_junit_has_a_case_for_each_file_with_errors() -> None:
    root = junit(findings(diagnostic(), diagnostic("again"), diagnostic(units=("k/a@gfx942",))))
    assert [(suite.attrib["name"], [case.attrib["name"] for case in suite]) for suite in root] == [
        ("files", ["templates/t.hip.j2"])
    ]
    assert root.attrib["failures"] == "1"


def test_github() -> None:
    commands, others = github(EVERYTHING)
    assert [kind for kind, _, _ in commands] == ["error"] * 10 + ["warning", "notice", "notice"]
    assert others == [f"{len(HOSTILE) * len(PATHS) + 3 - 10} more errors without an annotation", "1 unit: 1 failed"]
    _, properties, text = commands[0]
    assert properties == {
        "file": "templates/t.hip.j2", "line": "4", "endLine": "4", "col": "5", "endColumn": "10",
        "title": "ckwatch rule/m-per-block",
    }  # fmt: skip
    assert text == "100% wrong\n::error file=x::y ::"


@each_row("path", PATHS)
@each_row("message", HOSTILE)
def test_github_takes_a_message_for_nothing_else(path: str, message: str) -> None:
    commands, others = github(findings(diagnostic(message, path), summary="::set-env name=x::y\n::error::z"))
    ((kind, properties, text),) = commands
    assert kind == "error"
    assert ("file" in properties) is (path in PATHS[:5])
    assert len(text) <= 4000
    assert others == ["::set-env name=x::y%0A::error::z"] or not others


def test_gitlab() -> None:
    found = gitlab(EVERYTHING)
    assert len(found) == len(EVERYTHING.diagnostics)
    assert found[0]["location"] == {"path": "templates/t.hip.j2", "lines": {"begin": 4, "end": 4}}
    assert [one["severity"] for one in found[-5:-1]] == ["critical", "major", "info", "info"]


def test_ten_thousand_findings() -> None:
    many = findings(*(diagnostic(f"value {at}", line=at) for at in range(10_000)))
    assert len(json.loads(report(many, "sarif"))["runs"][0]["results"]) == 10_000
    assert len(gitlab(many)) == 10_000
    assert len(github(many)[0]) == 10
    assert len(junit(many)[0]) == 1


def test_the_repository_of_a_workspace(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "kernels"
    inner.mkdir(parents=True)
    (tmp_path / "a" / ".git").write_text("gitdir: elsewhere\n")
    assert repository_of(inner) == str(tmp_path / "a")
    assert repository_of(tmp_path) in (str(tmp_path), *map(str, tmp_path.parents))
