"""Which parameters templates ask for: the same as the daemon says."""

from __future__ import annotations

import pytest

from ckwatch.runtime.language_templates import template_detail
from ckwatch_lsp.jinja.index import TOP_LEVEL
from ckwatch_lsp.jinja.parameters import parameters_of, printing_tags
from marked_templates import BUILT_IN, TEMPLATES, index_of, only

TENSORS = ("X", "W", "Y", "Bias", "inv_scale_x", "inv_scale_w")


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name.endswith(TOP_LEVEL)])
def test_the_daemon_says_the_same(name: str) -> None:
    detail = template_detail(name, [TEMPLATES], {}, TENSORS, [])
    assert detail is not None
    index, _, _ = index_of({own: BUILT_IN[own] for own in detail.files})
    assert parameters_of(index, name) == sorted(parameter.name for parameter in detail.parameters)


def test_what_is_being_written_does_not_count() -> None:
    index, path, position = index_of({"a.hip.j2": "{{ MPer‸ }}{{ N }}{% include 'b.j2' %}", "b.j2": "{{ K }}"})
    offset = index.files[path].template.lines.offset(position)
    assert parameters_of(index, path, besides=offset) == ["K", "N"]
    assert parameters_of(index, path) == ["K", "MPer", "N"]


def test_parameters_of_other_templates_do_not_count() -> None:
    index, _, _ = index_of({"a.hip.j2": "{{ M }}", "b.hip.j2": "{{ N }}"})
    assert parameters_of(index, "a.hip.j2") == ["M"]


def test_where_a_name_is_printed_as_it_is() -> None:
    text = "{% set ‸x = 1 %}{{ x }}{{ x + 1 }}{{- x -}}{{ f(x) }}{{ y }}"
    index, path, position = index_of({"a.hip.j2": text})
    meaning = index.meaning(path, position)
    assert meaning is not None
    found = printing_tags(index, path, only(meaning.entities))
    plain = index.files[path].template.text
    assert [plain[each.start.column : each.end.column] for each in found] == ["{{ x }}", "{{- x -}}"]
