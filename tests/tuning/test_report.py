"""The report as one HTML file."""

from __future__ import annotations

import random
import re
from html.parser import HTMLParser

from cases.tuning_spaces import evaluated, record, tiles
from ckwatch.tuning.report import html_report
from ckwatch.tuning.results import EvaluationStatus
from ckwatch.tuning.space import coverage


class Nesting(HTMLParser):
    """Checks that elements close in the order in which they were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def page() -> str:
    points = [
        evaluated(1, {"M": 16, "p": "<v1>"}, {"s": 20.0, "t": 3.0}),
        evaluated(2, {"M": 32, "p": "v3"}, {"s": 10.0, "t": EvaluationStatus.WRONG}, reason="wrong: <b> & 'c'"),
        evaluated(3, {"M": 64, "p": "v3"}, {"s": EvaluationStatus.COMPILE_FAILED}, reason="no LDS: 70000"),
    ]
    found = coverage(tiles(), random.Random(1))
    return html_report(record(*points, shapes=("s", "t", "<none>"), coverage=found, budget_s=600.0, ended="budget"))


def test_it_is_well_formed_and_says_what_was_found() -> None:
    parser = Nesting()
    parser.feed(page())
    parser.close()
    assert parser.open == []
    text = " ".join(parser.text)
    for words in ("10.00 µs", "9.900 µs – 10.10 µs", "i1 (20.00 µs)", "<none>", "nothing was measured", "`M >= N`"):
        assert words in text
    assert "wrong: <b> & 'c'" in text
    assert "the only one" in text


def test_nothing_of_the_record_is_markup() -> None:
    assert not re.search(r"<b>|<none>|<v1>", page())


def test_nothing_is_loaded() -> None:
    assert not re.search(r"https?:|src=|href=|@import|<script|url\(", page())


def test_a_run_without_results_has_a_page() -> None:
    parser = Nesting()
    parser.feed(html_report(record()))
    assert parser.open == []
    assert "nothing was measured" in parser.text
