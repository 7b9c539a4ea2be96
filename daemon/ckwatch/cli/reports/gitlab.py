"""GitLab's code quality report: a list of findings, which merge requests compare by their fingerprints."""

from __future__ import annotations

import json

from ckwatch.cli.reports.findings import LEVELS, Findings, visible

SEVERITIES = {"error": "critical", "warning": "major", "note": "info"}


def report(findings: Findings) -> str:
    """All findings. GitLab takes no places outside of the repository; their paths stay absolute."""
    found = [
        {
            "check_name": one.code,
            "description": visible("\n".join((one.message, *findings.notes(one)))),
            "fingerprint": fingerprint,
            "severity": SEVERITIES[LEVELS[one.severity]],
            "location": {
                "path": findings.shown(one.span.path),
                "lines": {"begin": one.span.start.line + 1, "end": max(one.span.start, one.span.end).line + 1},
            },
        }
        for one, fingerprint in findings.fingerprints()
    ]
    return json.dumps(found, indent=1) + "\n"
