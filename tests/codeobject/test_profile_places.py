"""Lines of a device's profile at a unit's template, of this build and of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ckwatch.checks.places import RenderedFile
from ckwatch.codeobject.counted_counters import same_kernel
from ckwatch.codeobject.profile_places import PlacedProfile, placed
from ckwatch.model.device_profiles import DeviceProfile, ProfiledPlace
from ckwatch.render.renderer import Renderer
from codeobject.test_profile import figures, profile_with
from helpers.units import unit

TEMPLATE = "first\n  second\n{% if true %}\nthree four\n{% endif %}\nsame\nsame\n"


def place(line: int | None, source: str = "", path: str = "/elsewhere/kernel.hip", **more: Any) -> ProfiledPlace:
    return ProfiledPlace(text=more.pop("text", "s_nop 0"), path=path, line=line, samples=1, source=source, **more)


@pytest.fixture
def rendered(tmp_path: Path) -> RenderedFile:
    (tmp_path / "k.hip.j2").write_text(TEMPLATE)
    outcome = Renderer((tmp_path,)).render(unit("k.hip.j2"))
    assert outcome.rendered is not None
    return RenderedFile("kernel.hip", outcome.rendered.source_map)


def of(rendered: RenderedFile, *places: ProfiledPlace, instructions: tuple[str, ...] | None = None) -> PlacedProfile:
    return placed(DeviceProfile(method="test", unit="samples", places=places), rendered, instructions)


def lines(found: PlacedProfile) -> list[tuple[bool, int | None]]:
    return [(one.path in found.templates, one.line) for one in found.profile.places]


def test_lines_of_the_text_are_those_of_its_template(rendered: RenderedFile) -> None:
    third = rendered.lines.index("three four")
    found = of(rendered, place(1), place(third), place(99), place(None), place(1, path="/w/other.hip"))
    assert lines(found) == [(True, 1), (True, 3), (False, 99), (False, None), (False, 1)]
    assert found.other_build == ""


def test_lines_that_moved_are_found_by_their_text(rendered: RenderedFile) -> None:
    found = of(rendered, place(0, "first"), place(7, "three  four"), place(0, "gone"), place(0, "same"))
    assert lines(found) == [(True, 0), (True, 3), (False, 0), (False, 0)]
    assert found.other_build == ("of 2 lines of the unit's text 1 are the same, 1 are elsewhere now, and 1 are gone")


def test_instructions_that_the_build_lacks_are_counted(rendered: RenderedFile) -> None:
    known = ("s_nop 0", "v_add_f32_e32 v0, v1, v2")
    same = of(rendered, place(0), place(0, text="v_add_f32_e32  v0, v1, v2"), instructions=known)
    assert same.other_build == ""
    other = of(rendered, place(0), place(0, text="s_endpgm"), place(None, text=""), instructions=known)
    assert other.other_build == "1 of 3 samples are of instructions that the present build lacks"


@pytest.mark.parametrize("name", ["{symbol}", "{symbol}.kd", "{name}", "{name}(float*)", "{name} [clone .kd]"])
def test_a_kernel_has_several_names(name: str) -> None:
    kernel = profile_with(figures())
    assert same_kernel(name.format(symbol=kernel.symbol, name=kernel.name), kernel)
    assert not same_kernel(f"other_{kernel.name}", kernel)
