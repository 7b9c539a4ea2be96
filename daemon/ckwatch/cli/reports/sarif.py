"""SARIF 2.1.0, the static analysis results interchange format of OASIS, as GitHub's code scanning reads it.

Paths in the repository are relative to `%SRCROOT%`, others are `file:` URIs. Columns count code points.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ckwatch.checks.fold import counted
from ckwatch.cli.reports.findings import LEVELS, Findings, uri, visible
from ckwatch.model.diagnostics import Diagnostic, Fix
from ckwatch.model.documentation import PAGES_URL, page_url
from ckwatch.model.text import Position, Span
from ckwatch.model.version import __version__

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

RELATED = 100
"""Related places of a finding; GitHub shows no more."""


def report(findings: Findings) -> str:
    """A log with one run."""
    codes = list(dict.fromkeys(one.code for one in findings.diagnostics))
    first = {one.code: one for one in reversed(findings.diagnostics)}
    indices = {code: at for at, code in enumerate(codes)}
    run = {
        "tool": {
            "driver": {
                "name": "ckwatch",
                "version": __version__,
                "informationUri": PAGES_URL,
                "rules": [_rule(first[code]) for code in codes],
            }
        },
        "automationDetails": {"id": f"{findings.command.replace(' ', '/')}/"},
        "invocations": [{"executionSuccessful": True, "exitCode": findings.exit_status}],
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(findings, one, indices[one.code], fingerprint) for one, fingerprint in findings.fingerprints()
        ],
        "properties": {"summary": findings.summary},
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, ensure_ascii=True, indent=1) + "\n"


def _rule(one: Diagnostic) -> dict[str, Any]:
    """The rule behind a code, by the first finding that has it."""
    kind, _, name = one.code.partition("/")
    words = f"{kind}: {name.replace('-', ' ').replace('_', ' ')}" if name else kind
    url = page_url(one.code)
    help_text = "A message of the compiler." if url is None else f"{url} describes it."
    return {
        "id": one.code,
        "shortDescription": {"text": words},
        "fullDescription": {"text": words},
        "help": {"text": help_text},
        **({} if url is None else {"helpUri": url}),
        "defaultConfiguration": {"level": LEVELS[one.severity]},
        "properties": {"tags": [one.source.value]},
    }


def _result(findings: Findings, one: Diagnostic, rule: int, fingerprint: str) -> dict[str, Any]:
    text = "\n".join((one.message, *filter(None, [counted(one)])))
    related = [
        {"message": {"text": _plain(other.message)}, **_location(findings, other.span)}
        for other in one.related[:RELATED]
        if other.span is not None
    ]
    unplaced = [other.message for other in one.related if other.span is None]
    found: dict[str, Any] = {
        "ruleId": one.code,
        "ruleIndex": rule,
        "level": LEVELS[one.severity],
        "message": {"text": _plain("\n".join((text, *unplaced)))},
        "locations": [_location(findings, one.span)],
        "partialFingerprints": {"ckwatch/v1": fingerprint},
    }
    if related:
        found["relatedLocations"] = [{"id": at, **place} for at, place in enumerate(related, 1)]
    if one.fixes:
        found["fixes"] = [_fix(findings, fix) for fix in one.fixes]
    if one.units or one.approximate:
        found["properties"] = {"units": [visible(unit) for unit in one.units], "approximate": one.approximate}
    return found


def _plain(text: str) -> str:
    """A message in which nothing reads as a link to a related place, `[text](1)`."""
    return re.sub(r"\[(?=[^\[\]]*\]\()", r"\\[", re.sub(r"\](?=\()", r"\\]", visible(text)))


def _location(findings: Findings, span: Span) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": _artifact(findings, span.path), "region": _region(span)}}


def _artifact(findings: Findings, path: str) -> dict[str, str]:
    relative = findings.relative(path)
    return {"uri": f"file://{uri(path)}"} if relative is None else {"uri": uri(relative), "uriBaseId": "%SRCROOT%"}


def _region(span: Span) -> dict[str, int]:
    start, end = span.start, max(span.start, span.end)
    return {**_numbers("start", start), **_numbers("end", end)}


def _numbers(which: str, position: Position) -> dict[str, int]:
    return {f"{which}Line": max(position.line, 0) + 1, f"{which}Column": max(position.column, 0) + 1}


def _fix(findings: Findings, fix: Fix) -> dict[str, Any]:
    replacement = {"deletedRegion": _region(fix.span), "insertedContent": {"text": visible(fix.text)}}
    change = {"artifactLocation": _artifact(findings, fix.span.path), "replacements": [replacement]}
    return {"description": {"text": "Apply the fix"}, "artifactChanges": [change]}
