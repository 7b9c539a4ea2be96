"""Requests of editors to the daemon, on the GEMM example and on small templates."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx

from benches.daemon_bench import KERNEL, Bench, build
from benches.gemm_bench import GEMM, gemm_bench
from ckwatch.core.events import MAIN
from ckwatch.engine.answers import Daemon
from ckwatch.model.errors import CkwatchError, UnknownUnitError
from ckwatch.wire.language import TemplateDetail
from helpers.in_own_task import in_own_task

GEMM_FILE = (GEMM / "gemm_f16.kernel.toml").read_text()
GEMM_UNIT = "gemm_f16/v3_128x128x64_intrawave@gfx942"
TEMPLATE = """\
{#- Two numbers.
    Tile: how many
-#}
{% from "macros.j2" import twice as double %}
{% import "more/deep.j2" as deep with context %}
{% set local = Tile %}
{{ local }} {{ double(parameters.Other) }} {{ X.name }} {{ Optional | default(3) }} {{ loops["x"] }}
{% for one in range(3) %}{{ one }}{{ arch }}{{ loop.index }}{% endfor %}
{{ template_argument("Named") }} {{ template_argument("Made", 3) }} {{ kernel.template_argument("Also") }}
{% include "absent.j2" %}
{% macro inner(a, b=2) %}{{ a }}{{ b }}{{ Depth }}{% endmacro %}
"""


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[tuple[Bench, Daemon]]:
    bench = Bench(tmp_path)
    bench.write("templates/k.hip.j2", TEMPLATE)
    bench.write("templates/macros.j2", "{% macro twice(x) %}{{ x }}{{ x }}{% endmacro %}")
    bench.write("templates/more/deep.j2", "{{ Tile }}{{ Deeper }}")
    async with in_own_task(bench.open()) as daemon:
        yield bench, daemon


@pytest.fixture(scope="module")
def gemm(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return gemm_bench(tmp_path_factory.mktemp("gemm"))


async def known(daemon: Daemon) -> None:
    """Return when the daemon has handled the events so far."""
    async with daemon.builds.build("editor", [], force=False, check_only=True) as lines:
        async for _ in lines:
            pass


async def test_what_a_template_asks_for(daemon: tuple[Bench, Daemon]) -> None:
    bench, engine = daemon
    with blockbuster_ctx("ckwatch.engine.queries.language"):
        found = await engine.language.template(MAIN, "k.hip.j2", None)
    templates = bench.root / "templates"
    assert found.path == str(templates / "k.hip.j2")
    assert found.files == {
        "k.hip.j2": str(templates / "k.hip.j2"),
        "macros.j2": str(templates / "macros.j2"),
        "more/deep.j2": str(templates / "more/deep.j2"),
    }
    assert found.missing == ("absent.j2",)
    assert sorted(one.name for one in found.parameters) == [
        "Also", "Deeper", "Depth", "Named", "Optional", "Other", "Tile", "loops",
    ]  # fmt: skip
    by_name = {one.name: one for one in found.parameters}
    assert (by_name["Tile"].doc, by_name["Tile"].default) == ("how many", None)
    assert by_name["Optional"].default is not None
    assert found.units == ("k/one@gfx942", "k/two@gfx942")
    assert await engine.language.template(MAIN, None, found.path) == found
    deep = await engine.language.template(MAIN, None, found.files["more/deep.j2"])
    assert (deep.name, [one.name for one in deep.parameters], deep.units) == ("more/deep.j2", ["Tile", "Deeper"], ())


async def test_templates_by_name(daemon: tuple[Bench, Daemon]) -> None:
    bench, engine = daemon
    names = {one.name: one.path for one in await engine.language.templates(MAIN)}
    assert next(iter(names)) == "k.hip.j2"
    assert names["k.hip.j2"] == str(bench.root / "templates/k.hip.j2")
    assert "ck/gemm_universal.hip.j2" in names
    assert "macros.j2" not in names


@pytest.mark.parametrize("text", ["{{ Tile", "{% for %}", "\0", "{{ Tile }}{{ New }}"])
async def test_unsaved_text_counts_and_may_be_anything(daemon: tuple[Bench, Daemon], text: str) -> None:
    bench, engine = daemon
    path = str(bench.root / "templates/k.hip.j2")
    await engine.requests.overlay("editor", path, text)
    await known(engine)
    found = await engine.language.template("editor", "k.hip.j2", None)
    assert [one.name for one in found.parameters] == (["Tile", "New"] if "New" in text else [])
    assert len((await engine.language.template(MAIN, "k.hip.j2", None)).parameters) == 8


@pytest.mark.parametrize(
    ("name", "path"), [("none.hip.j2", None), (None, "/elsewhere/k.hip.j2"), ("../k.kernel.toml", None)]
)
async def test_templates_that_are_not_there(daemon: tuple[Bench, Daemon], name: str | None, path: str | None) -> None:
    with pytest.raises(CkwatchError, match=r"no template|no template folder"):
        await daemon[1].language.template(MAIN, name, path)


async def test_readers_are_observed(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.write("templates/o.hip.j2", "int other = {{ Tile }};\nint {{ KERNEL_NAME }}();\n")
    bench.write("o.kernel.toml", KERNEL.replace("k.hip.j2", "o.hip.j2"))
    async with bench.open() as daemon:
        await build(daemon)
        ids = ["k/one@gfx942", "k/two@gfx942"]
        assert await daemon.language.readers(MAIN, str(bench.root / "templates/macros.j2")) == ids
        assert await daemon.language.readers("editor", str(bench.root / "k.kernel.toml")) == ids
        assert await daemon.language.readers(MAIN, str(bench.header)) == [*ids, "o/one@gfx942", "o/two@gfx942"]
        assert await daemon.language.readers(MAIN, "/no/such") == []
        many = [str(bench.root / "templates/macros.j2"), "/no/such", str(bench.root / "o.kernel.toml")]
        assert await daemon.language.readers_of(MAIN, many) == [ids, [], ["o/one@gfx942", "o/two@gfx942"]]


async def test_the_gemm_template_has_its_parameters_with_their_rules(gemm: Bench) -> None:
    async with gemm.open() as daemon:
        found = await daemon.language.template(MAIN, "ck/gemm_universal.hip.j2", None)
        vocabulary = await daemon.language.vocabulary()
    assert_is_gemm(found)
    assert {"gemm_f16", "gemm_f16_split_k"} == {unit.partition("/")[0] for unit in found.units}
    assert {"def_kernel", "size"} <= {word.name for word in vocabulary.hooks}


def assert_is_gemm(found: TemplateDetail) -> None:
    parameters = {one.name: one for one in found.parameters}
    assert len(parameters) == 34
    version = parameters["BlkGemmPipelineVer"]
    assert version.values == ('"v1"', '"v2"', '"v3"', '"v4"', '"v5"')
    assert "scheduler" in {rule.slug for rule in version.rules}
    assert {name for name, one in parameters.items() if one.default is not None} == {
        "CShuffleDataType", "ComputeTypeA", "ComputeTypeB",
    }  # fmt: skip
    assert all(one.doc and one.kind for one in parameters.values())


async def values(daemon: Daemon, parameter: str, **more: object) -> dict[str, list[object]]:
    asked: dict[str, Any] = {"scope": MAIN, "unit": GEMM_UNIT, "parameter": parameter, **more}
    found = await daemon.language.values(**asked)
    assert all(bool(one.why_not) is not one.accepted for one in found)
    assert [one.accepted for one in found] == sorted((one.accepted for one in found), reverse=True)
    return {
        "accepted": [one.value for one in found if one.accepted],
        "refused": [one.value for one in found if not one.accepted],
    }


async def test_values_that_the_rules_accept_come_first(gemm: Bench) -> None:
    async with gemm.open() as daemon:
        found = await values(daemon, "MPerBlock")
        assert found["accepted"][0] == 128
        assert 64 in found["accepted"]
        assert 96 in found["refused"]
        assert await values(daemon, "BlkGemmPipeSched") == {"accepted": ["Intrawave"], "refused": ["Interwave"]}
        order = "ABlockTransferThreadClusterArrangeOrder"
        assert [1, 0, 2] in (await values(daemon, order))["accepted"]
        found = await values(daemon, "MXdlPerWave", values=[3, 2, 2, "x", {"a": 1}, 4])
        assert found["accepted"][:2] == [2, 4]
        assert [one for one in found["refused"] if one != "x"] == [3, {"a": 1}]


async def test_values_with_other_parameters(gemm: Bench) -> None:
    async with gemm.open() as daemon:
        detail = await daemon.units.unit(MAIN, GEMM_UNIT)
        given = detail.parameters | {"BlkGemmPipelineVer": "v1"}
        found = await values(daemon, "BlkGemmPipeSched", parameters=given)
        assert found == {"accepted": ["Intrawave", "Interwave"], "refused": []}
        # what is not there yet has to be rendered with each
        without = {name: value for name, value in detail.parameters.items() if name != "BlkGemmPipeSched"}
        found = await values(daemon, "BlkGemmPipeSched", parameters=without, values=["Intrawave", "Interwave"])
        assert found == {"accepted": ["Intrawave"], "refused": ["Interwave"]}
        # the template says itself what cannot be
        without.pop("MPerBlock")
        (one,) = await daemon.language.values(MAIN, GEMM_UNIT, "BlkGemmPipeSched", ["Intrawave"], without)
        assert not one.accepted
        assert "MPerBlock" in one.why_not


async def test_values_in_a_clients_view(gemm: Bench) -> None:
    path = str(gemm.root / "gemm_f16.kernel.toml")
    text = GEMM_FILE
    async with gemm.open() as daemon:
        await daemon.requests.overlay("editor", path, text.replace('PipelineVer = "v3"', 'PipelineVer = "v1"', 1))
        await known(daemon)
        found = await values(daemon, "BlkGemmPipeSched", scope="editor")
        assert found == {"accepted": ["Intrawave", "Interwave"], "refused": []}
        assert (await values(daemon, "BlkGemmPipeSched"))["refused"] == ["Interwave"]
        # what is being written breaks the file: the values of the file on disk are better than none
        await daemon.requests.overlay("editor", path, text + "\nMPerBlock = ")
        await known(daemon)
        assert (await values(daemon, "BlkGemmPipeSched", scope="editor"))["accepted"]


async def test_units_that_are_not_there(gemm: Bench) -> None:
    async with gemm.open() as daemon:
        with pytest.raises(UnknownUnitError):
            await daemon.language.values(MAIN, "gemm_f16/none@gfx942", "MPerBlock")


async def test_a_template_without_rules_accepts_what_renders(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.write("templates/macros.j2", "{{ (10 / (Tile - 4)) | int }}")
    async with bench.open() as daemon:
        good, bad = await daemon.language.values(MAIN, "k/one@gfx942", "Tile", [4, 8])
        assert (good.value, bad.value) == (8, 4)
        assert "zero" in bad.why_not
        assert os.fspath(bench.root)
