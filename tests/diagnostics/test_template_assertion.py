"""A template's own static_assert about parameters is reported at the parameter, like those of CK's headers."""

from __future__ import annotations

from pathlib import Path

from ckwatch.diagnostics.clang_text import parse_log
from ckwatch.diagnostics.mapping import diagnose
from ckwatch.render.engine import Renderer
from units import place, unit

TEMPLATE = """\
template <int MPerBlock, int MPerThread> struct Tile {
    static_assert(MPerBlock % MPerThread == 0, "whole panels");
};
Tile<{{ template_argument("MPerBlock") }}, {{ template_argument("MPerThread") }}> tile;
"""
LOG = """\
/w/kernel.cpp:2:19:{2:19-2:46}: error: static assertion failed due to requirement '64 % 6 == 0': whole panels [Semantic Issue]
/w/kernel.cpp:4:49: note: in instantiation of template class 'Tile<64, 6>' requested here
"""


def test_it_stands_at_the_parameter(tmp_path: Path) -> None:
    (tmp_path / "t.cpp.j2").write_text(TEMPLATE)
    subject = unit("t.cpp.j2", MPerBlock=64, MPerThread=6)
    rendered = Renderer((tmp_path,)).render(subject).rendered
    assert rendered is not None
    (diagnostic,) = diagnose(
        parse_log(LOG),
        unit=subject,
        source_path="/w/kernel.cpp",
        source_map=rendered.source_map,
        read_line=lambda _path, _line: None,
    )
    assert diagnostic.message == "MPerBlock % MPerThread == 0: 64 % 6 = 4"
    assert diagnostic.span in (place(10), place(11))
    assert any(related.span and related.span.path.endswith("t.cpp.j2") for related in diagnostic.related)
