"""Parameters that no template reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.lint import unused_parameters
from ckwatch.render.engine import Renderer
from units import place, unit

ROWS = [
    ("{{ MPerBlock }}", []),
    ("{% if false %}{{ MPerBlock }}{% endif %}", []),
    ("{{ template_argument('MPerBlock') }}", []),
    ("{% for name, value in parameters.items() %}{{ name }}{% endfor %}", []),
    ("{{ arch }}", ["no template reads the parameter 'MPerBlock'"]),
    ("{{ m_per_block is defined }}", ["no template reads the parameter 'MPerBlock'; did you mean 'm_per_block'?"]),
]


@pytest.mark.parametrize(("template", "expected"), ROWS)
def test_unused_parameters(tmp_path: Path, template: str, expected: list[str]) -> None:
    (tmp_path / "a.hip.j2").write_text(template)
    subject = unit("a.hip.j2", MPerBlock=128)
    rendered = Renderer((tmp_path,)).render(subject).rendered
    assert rendered is not None
    diagnostics = unused_parameters(subject, rendered)
    assert [diagnostic.message for diagnostic in diagnostics] == expected
    assert all(diagnostic.span == place(10) for diagnostic in diagnostics)
